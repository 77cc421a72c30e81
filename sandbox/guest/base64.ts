/** Base64 of bytes and back, in indexed arithmetic only, so that patched built-ins cannot reach it. */
import { Bytes, arrayJoin, charCodeAt, fromCharCode, list, push } from "./primordials.ts";

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PADDING = 61;
const CHUNK_BYTES = 3 * 1024;

const values = new Bytes(128);
for (let i = 0; i < 128; i++) values[i] = 255;
for (let i = 0; i < 64; i++) values[charCodeAt(DIGITS, i)] = i;

export function base64Of(bytes: Uint8Array, length: number): string {
  const parts = list<string>();
  for (let from = 0; from < length; from += CHUNK_BYTES) {
    const to = from + CHUNK_BYTES < length ? from + CHUNK_BYTES : length;
    push(parts, chunkText(bytes, from, to));
  }
  return arrayJoin(parts, "");
}

function chunkText(bytes: Uint8Array, from: number, to: number): string {
  let text = "";
  for (let i = from; i < to; i += 3) {
    const a = bytes[i]!;
    const b = i + 1 < to ? bytes[i + 1]! : 0;
    const c = i + 2 < to ? bytes[i + 2]! : 0;
    text +=
      DIGITS[a >> 2]! +
      DIGITS[((a & 3) << 4) | (b >> 4)]! +
      (i + 1 < to ? DIGITS[((b & 15) << 2) | (c >> 6)]! : "=") +
      (i + 2 < to ? DIGITS[c & 63]! : "=");
  }
  return text;
}

/** The bytes of base64 text with padding and no white space; null if it is none. */
export function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> | null {
  const length = text.length;
  if (length % 4 !== 0) return null;
  let padding = 0;
  if (length > 0 && charCodeAt(text, length - 1) === PADDING) padding += 1;
  if (length > 0 && charCodeAt(text, length - 2) === PADDING) padding += 1;
  const size = (length / 4) * 3 - padding;
  const bytes = new Bytes(size);
  const digits = length - padding;
  let held = 0;
  let bits = 0;
  let at = 0;
  for (let i = 0; i < digits; i++) {
    const code = charCodeAt(text, i);
    const value = code < 128 ? values[code]! : 255;
    if (value === 255) return null;
    held = ((held << 6) | value) & 0xffffff;
    bits += 6;
    if (bits >= 8) {
      bits -= 8;
      bytes[at] = held >> bits;
      at += 1;
    }
  }
  return bytes;
}

/** Latin-1 text of bytes, as `atob` gives it. */
export function latin1Of(bytes: Uint8Array, length: number): string {
  const parts = list<string>();
  let text = "";
  for (let i = 0; i < length; i++) {
    text += fromCharCode(bytes[i]!);
    if (text.length === CHUNK_BYTES) {
      push(parts, text);
      text = "";
    }
  }
  push(parts, text);
  return arrayJoin(parts, "");
}
