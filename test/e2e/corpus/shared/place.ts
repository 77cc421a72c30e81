import { WORKFLOW_DESERIALIZE, WORKFLOW_SERIALIZE } from "@workflow/serde";

export class Place {
  readonly name: string;
  readonly x: number;
  readonly y: number;
  constructor(name: string, x: number, y: number) {
    this.name = name;
    this.x = x;
    this.y = y;
  }
  static [WORKFLOW_SERIALIZE](place: Place) {
    return [place.name, place.x, place.y];
  }
  static [WORKFLOW_DESERIALIZE]([name, x, y]: [string, number, number]) {
    return new Place(name, x, y);
  }
  label(): string {
    return `${this.name} at ${this.x}/${this.y}`;
  }
  async distance(x: number, y: number): Promise<number> {
    "use step";
    return Math.abs(this.x - x) + Math.abs(this.y - y);
  }
}
