/** How many bytes a text takes. */
import { charCodeAt } from "./primordials.ts";

/** UTF-8 bytes of a text, as the host counts them: a lone surrogate becomes three. */
export function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    if (code <= 0x7f) continue;
    if (code <= 0x7ff) {
      bytes += 1;
      continue;
    }
    // Two units and four bytes in a pair, one unit and three bytes otherwise.
    bytes += 2;
    if (isBetween(code, 0xd800, 0xdbff) && isBetween(charCodeAt(text, i + 1), 0xdc00, 0xdfff)) i++;
  }
  return bytes;
}

function isBetween(code: number, from: number, to: number): boolean {
  return code >= from && code <= to;
}
