async function sum(this: { base: number } | undefined, a: number, b: number, c: number) {
  "use step";
  return (this?.base ?? 0) + a + b + c;
}

async function twice(operation: (n: number) => Promise<number>, n: number): Promise<number> {
  "use step";
  return (await operation(n)) + (await operation(n));
}

export async function main(): Promise<number[]> {
  "use workflow";
  const partial = sum.bind(undefined, 1, 2);
  return [
    await partial(3),
    await sum.call(undefined, 1, 1, 1),
    await sum.apply(undefined, [2, 2, 2]),
    await twice(partial, 10),
  ];
}
