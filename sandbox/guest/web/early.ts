/**
 * Text codecs and base64 on the global, before any module that uses them while it loads. Import
 * this one first.
 */
import { TextDecoder, TextEncoder } from "@exodus/bytes/encoding-lite.js";
import { base64Of, bytesOfBase64, latin1Of } from "../base64.ts";
import { define, StringOf } from "../primordials.ts";
import { GuestDOMException } from "./dom-exception.ts";

function btoa(data: unknown): string {
  const text = StringOf(data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 255) {
      throw new GuestDOMException("btoa takes characters up to 255", "InvalidCharacterError");
    }
    bytes[i] = code;
  }
  return base64Of(bytes, bytes.length);
}

function atob(data: unknown): string {
  let text = StringOf(data).replace(/[\t\n\f\r ]/g, "");
  if (text.length % 4 === 0) text = text.replace(/==?$/, "");
  const isPossible = text.length % 4 !== 1 && !text.includes("=");
  const padded = text + "=".repeat((4 - (text.length % 4)) % 4);
  const bytes = isPossible ? bytesOfBase64(padded) : null;
  if (bytes === null) {
    throw new GuestDOMException("atob was given what is no base64", "InvalidCharacterError");
  }
  return latin1Of(bytes, bytes.length);
}

define(globalThis, "DOMException", GuestDOMException, false);
define(globalThis, "TextEncoder", TextEncoder, false);
define(globalThis, "TextDecoder", TextDecoder, false);
define(globalThis, "atob", atob, false);
define(globalThis, "btoa", btoa, false);
