import { createHash } from "node:crypto";

export async function shout(text: string): Promise<string> {
  "use step";
  return `${text.toUpperCase()}!`;
}

/** Only step code may use Node's modules; that workflow code imports this file does no harm. */
export async function fingerprint(text: string): Promise<string> {
  "use step";
  return createHash("sha256").update(text).digest("hex");
}

export function whisper(text: string): string {
  return text.toLowerCase();
}
