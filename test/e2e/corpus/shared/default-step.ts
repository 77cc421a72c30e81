export default async function (n: number): Promise<number> {
  "use step";
  return n + 1000;
}
