const VALUES = [
  undefined,
  null,
  true,
  Number.NaN,
  -0,
  Infinity,
  -Infinity,
  1e308,
  2n ** 80n,
  -1n,
  "",
  "a\0b",
  "\u{1F600} é",
  "</script>",
];

async function same(values: unknown[]): Promise<unknown[]> {
  "use step";
  return [...values, ...values.map((value, i) => Object.is(value, VALUES[i]))];
}

export async function main(): Promise<unknown> {
  "use workflow";
  const back = await same(VALUES);
  const inStep = back.slice(VALUES.length).every((one) => one === true);
  return [inStep, VALUES.every((value, i) => Object.is(value, back[i]))];
}
