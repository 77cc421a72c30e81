import { WORKFLOW_DESERIALIZE, WORKFLOW_SERIALIZE } from "@workflow/serde";

class Shape {
  readonly size: number;
  constructor(size: number) {
    this.size = size;
  }
  static [WORKFLOW_SERIALIZE](shape: Shape) {
    return { size: shape.size };
  }
  static [WORKFLOW_DESERIALIZE](data: { size: number }) {
    return new Shape(data.size);
  }
  area(): number {
    return 0;
  }
}

class Square extends Shape {
  static override [WORKFLOW_SERIALIZE](shape: Square) {
    return { size: shape.size };
  }
  static override [WORKFLOW_DESERIALIZE](data: { size: number }) {
    return new Square(data.size);
  }
  override area(): number {
    return this.size ** 2;
  }
}

async function grown(shapes: Shape[]): Promise<Shape[]> {
  "use step";
  return shapes.map((shape) =>
    shape instanceof Square ? new Square(shape.size + 1) : new Shape(shape.size + 1),
  );
}

export async function main(): Promise<unknown> {
  "use workflow";
  const shapes = await grown([new Shape(1), new Square(2)]);
  return shapes.map((shape) => [shape instanceof Square, shape.size, shape.area()]);
}
