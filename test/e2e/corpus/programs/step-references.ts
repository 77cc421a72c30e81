async function add(a: number, b: number): Promise<number> {
  "use step";
  return a + b;
}

async function multiply(a: number, b: number): Promise<number> {
  "use step";
  return a * b;
}

type Operation = (a: number, b: number) => Promise<number>;

async function fold(operation: Operation, numbers: number[]): Promise<number> {
  "use step";
  let result = numbers[0] ?? 0;
  for (const n of numbers.slice(1)) result = await operation(result, n);
  return result;
}

async function chosen(name: string): Promise<Operation> {
  "use step";
  return name === "add" ? add : multiply;
}

export async function main(): Promise<unknown> {
  "use workflow";
  const operation = await chosen("multiply");
  const reference = operation as unknown as { stepId: string };
  return [
    await fold(add, [1, 2, 3]),
    await operation(6, 7),
    await fold(operation, [2, 3, 4]),
    reference.stepId,
  ];
}
