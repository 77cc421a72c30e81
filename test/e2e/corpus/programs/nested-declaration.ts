export async function main(rate: number): Promise<number[]> {
  "use workflow";
  const early = await priced(1);
  async function priced(quantity: number): Promise<number> {
    "use step";
    return quantity * rate;
  }
  return [early, await priced(2), await priced(3)];
}
