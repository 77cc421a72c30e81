async function page(cursor: number): Promise<{ items: number[]; next: number | null }> {
  "use step";
  return { items: [cursor, cursor + 1], next: cursor < 4 ? cursor + 2 : null };
}

async function* pages(): AsyncGenerator<number> {
  let cursor: number | null = 0;
  while (cursor !== null) {
    const found: { items: number[]; next: number | null } = await page(cursor);
    yield* found.items;
    cursor = found.next;
  }
}

export async function main(): Promise<number[]> {
  "use workflow";
  const all: number[] = [];
  for await (const item of pages()) all.push(item);
  return all;
}
