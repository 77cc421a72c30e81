/** `crypto.subtle.digest` of a step's body. */
import { sha1 } from "@noble/hashes/legacy.js";
import { sha256, sha384, sha512 } from "@noble/hashes/sha2.js";
import { define } from "../primordials.ts";
import { bytesOfPart } from "../web/blob.ts";
import { GuestDOMException } from "../web/dom-exception.ts";

const HASHES = new Map([
  ["SHA-1", sha1],
  ["SHA-256", sha256],
  ["SHA-384", sha384],
  ["SHA-512", sha512],
]);

export function installDigest(crypto: object): void {
  const digest = async (
    algorithm: string | { readonly name: string },
    data: ArrayBuffer | ArrayBufferView,
  ): Promise<ArrayBuffer> => {
    const name = typeof algorithm === "string" ? algorithm : algorithm.name;
    const hash = HASHES.get(name.toUpperCase());
    if (hash === undefined) {
      throw new GuestDOMException(`no digest is named ${name}`, "NotSupportedError");
    }
    return hash(bytesOfPart(data)).slice().buffer;
  };
  define(crypto, "subtle", { digest });
}
