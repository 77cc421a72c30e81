async function square(n: number): Promise<number> {
  "use step";
  return n * n;
}

async function refuse(n: number): Promise<number> {
  "use step";
  throw new Error(`refused ${n}`);
}
refuse.maxRetries = 0;

export async function main(): Promise<unknown> {
  "use workflow";
  const squares = await Promise.all([1, 2, 3, 4, 5].map((n) => square(n)));
  const settled = await Promise.allSettled([square(6), refuse(7)]);
  const any = await Promise.any([refuse(8), square(9)]);
  return [squares, settled.map((one) => one.status), any];
}
