async function double(n: number): Promise<number> {
  "use step";
  return n * 2;
}

async function describe(n: number, unit: string): Promise<string> {
  "use step";
  return `${n} ${unit}`;
}

export async function main(n: number): Promise<string> {
  "use workflow";
  const twice = await double(n);
  const more = await double(twice);
  return describe(more, "apples");
}
