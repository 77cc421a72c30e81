import stepOf from "../shared/default-step";

export default async function main(n: number): Promise<number> {
  "use workflow";
  return stepOf(n);
}
