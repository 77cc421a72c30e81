export const VAT_PERCENT = 19;

export async function vatOf(cents: number): Promise<number> {
  "use step";
  return Math.round((cents * VAT_PERCENT) / 100);
}
