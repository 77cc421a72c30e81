async function next(n: number): Promise<number> {
  "use step";
  return n + 1;
}

export async function main(): Promise<number> {
  "use workflow";
  let n = 0;
  for (let lap = 0; lap < 25; lap++) n = await next(n);
  const fan = await Promise.all(Array.from({ length: 25 }, (_, i) => next(i)));
  return n + fan.length;
}
