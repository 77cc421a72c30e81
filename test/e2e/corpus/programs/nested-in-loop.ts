export async function main(): Promise<number[]> {
  "use workflow";
  const found: number[] = [];
  for (let i = 1; i <= 3; i++) {
    const scaled = async (n: number): Promise<number> => {
      "use step";
      return n * i;
    };
    found.push(await scaled(10));
  }
  return found;
}
