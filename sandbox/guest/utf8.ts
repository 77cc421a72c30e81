/** How many bytes a text takes. */
import { charCodeAt } from "./primordials.ts";

/** UTF-8 bytes of a text; a lone surrogate counts as two, and is escaped where it is written. */
export function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = charCodeAt(text, i);
    // A surrogate pair is two units and four bytes: two each.
    if (code > 0x7f) bytes += code > 0x7ff && (code < 0xd800 || code > 0xdfff) ? 2 : 1;
  }
  return bytes;
}
