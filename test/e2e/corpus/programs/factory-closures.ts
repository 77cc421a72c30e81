function counterOf(start: number, step: number) {
  const limits = new Map([["most", start + 10 * step]]);
  return {
    next: async (n: number): Promise<number> => {
      "use step";
      return Math.min(start + n * step, limits.get("most") ?? 0);
    },
  };
}

export async function main(): Promise<number[]> {
  "use workflow";
  const tens = counterOf(0, 10);
  const ones = counterOf(100, 1);
  return [await tens.next(3), await ones.next(3), await tens.next(99)];
}
