/** The words of a document, by how often they occur: split, counted page by page, merged. */
import { FatalError, getStepMetadata, getWritable } from "workflow";

export interface Progress {
  readonly page: number;
  readonly words: number;
}

export interface Index {
  readonly pages: number;
  /** Numbers of pages that could not be read. */
  readonly unread: readonly number[];
  readonly words: number;
  /** The most frequent words, with their counts. */
  readonly top: readonly (readonly [string, number])[];
}

type Counts = Map<string, number>;

const TOP = 5;

export async function indexDocument(text: string, pageChars: number): Promise<Index> {
  "use workflow";
  const pages = await split(text, pageChars);
  const settled = await Promise.allSettled(pages.map((page, number) => count(page, number)));
  const counts: Counts[] = [];
  const unread: number[] = [];
  for (const [number, one] of settled.entries()) {
    if (one.status === "fulfilled") counts.push(one.value);
    else unread.push(number);
  }
  const { words, top } = await merge(counts);
  return { pages: pages.length, unread, words, top };
}

async function split(text: string, pageChars: number): Promise<string[]> {
  "use step";
  const pages: string[] = [];
  let page = "";
  for (const word of text.split(/\s+/)) {
    if (page !== "" && page.length + 1 + word.length > pageChars) {
      pages.push(page);
      page = "";
    }
    page = page === "" ? word : `${page} ${word}`;
  }
  if (page !== "") pages.push(page);
  return pages;
}

async function count(page: string, number: number): Promise<Counts> {
  "use step";
  if (page.includes("\uFFFD")) throw new FatalError(`page ${number} is damaged`);
  const counts: Counts = new Map();
  for (const [word] of page.toLowerCase().matchAll(/\p{Letter}+/gu)) {
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  const words = [...counts.values()].reduce((sum, n) => sum + n, 0);
  await tell({ page: number, words });
  return counts;
}

async function merge(all: readonly Counts[]): Promise<Pick<Index, "words" | "top">> {
  "use step";
  const total: Counts = new Map();
  for (const counts of all) {
    for (const [word, n] of counts) total.set(word, (total.get(word) ?? 0) + n);
  }
  const ranked = [...total].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1));
  await getWritable({ namespace: "progress" }).close();
  return { words: ranked.reduce((sum, [, n]) => sum + n, 0), top: ranked.slice(0, TOP) };
}

/** Part of a step's body: only a first attempt tells, so that no page is told of twice. */
async function tell(progress: Progress): Promise<void> {
  if (getStepMetadata().attempt > 1) return;
  const writer = getWritable<Progress>({ namespace: "progress" }).getWriter();
  await writer.write(progress);
  writer.releaseLock();
}
