async function grow(text: string): Promise<{ text: string; bytes: Uint8Array }> {
  "use step";
  return { text: text.repeat(2000), bytes: new Uint8Array(100_000).fill(7) };
}

async function measure(value: { text: string; bytes: Uint8Array }): Promise<number[]> {
  "use step";
  return [value.text.length, value.bytes.reduce((sum, byte) => sum + byte, 0)];
}

export async function main(): Promise<number[]> {
  "use workflow";
  return measure(await grow("0123456789".repeat(10)));
}
