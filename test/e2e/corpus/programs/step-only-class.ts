import { locate } from "../shared/locate";

export async function main(): Promise<unknown> {
  "use workflow";
  const place = await locate("berlin");
  return [place.constructor.name, place.label(), await place.distance(1, 1)];
}
