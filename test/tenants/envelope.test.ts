import { randomBytes } from "node:crypto";
import { array, assert, property, string, uint8Array } from "fast-check";
import { describe, expect, it } from "vitest";
import {
  ENVELOPE_BYTES,
  keyVersionOf,
  openEnvelope,
  sealEnvelope,
} from "../../tenants/envelope.ts";

const key = { keyVersion: 3, bytes: new Uint8Array(32).fill(7) };
const bounds = (binding: readonly string[], plainBytesMax = 1 << 20) => ({
  binding,
  plainBytesMax,
});
const refused = expect.objectContaining({ code: "PAYLOAD_UNREADABLE" }) as Error;

describe("an envelope", () => {
  it("gives back any bytes, in the same place only", () => {
    assert(
      property(
        uint8Array({ maxLength: 5000 }),
        array(string(), { maxLength: 4 }),
        (plain, binding) => {
          const sealed = sealEnvelope(key, plain, binding);
          expect(openEnvelope(key, sealed, bounds(binding))).toEqual(plain);
          expect(() => openEnvelope(key, sealed, bounds([...binding, ""]))).toThrow(refused);
        },
      ),
    );
  });

  it("does not open where the same texts are split differently", () => {
    const sealed = sealEnvelope(key, new Uint8Array(8), ["ab", "c"]);
    expect(() => openEnvelope(key, sealed, bounds(["a", "bc"]))).toThrow(refused);
  });

  it("does not open with any one bit changed", () => {
    const sealed = sealEnvelope(key, randomBytes(16), ["a"]);
    for (let bit = 0; bit < sealed.byteLength * 8; bit++) {
      const changed = new Uint8Array(sealed);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(() => openEnvelope(key, changed, bounds(["a"]))).toThrow(refused);
    }
  });

  it("does not open when cut short, at any length", () => {
    const sealed = sealEnvelope(key, randomBytes(16), ["a"]);
    for (let length = 0; length < sealed.byteLength; length++) {
      expect(() => openEnvelope(key, sealed.subarray(0, length), bounds(["a"]))).toThrow(refused);
    }
    expect(keyVersionOf(sealed)).toBe(3);
    expect(keyVersionOf(new Uint8Array(ENVELOPE_BYTES))).toBe(null);
  });

  it("never has the same nonce twice", () => {
    const nonces = Array.from({ length: 1000 }, () =>
      Buffer.from(sealEnvelope(key, new Uint8Array(1), []).subarray(9, 21)).toString("hex"),
    );
    expect(new Set(nonces).size).toBe(1000);
  });

  it("is smaller than text that repeats, from 1,024 bytes on, and never for noise", () => {
    expect(sealEnvelope(key, new Uint8Array(1023), []).byteLength).toBe(1023 + ENVELOPE_BYTES);
    expect(sealEnvelope(key, new Uint8Array(1024), []).byteLength).toBeLessThan(200);
    expect(sealEnvelope(key, randomBytes(4096), []).byteLength).toBe(4096 + ENVELOPE_BYTES);
  });

  it("does not inflate beyond the bound", () => {
    const sealed = sealEnvelope(key, new Uint8Array(100_000), []);
    expect(openEnvelope(key, sealed, bounds([], 100_000)).byteLength).toBe(100_000);
    expect(() => openEnvelope(key, sealed, bounds([], 99_999))).toThrow(
      expect.objectContaining({
        code: "PAYLOAD_UNREADABLE",
        details: expect.objectContaining({ used: 100_000 }) as unknown,
      }) as Error,
    );
  });

  it("opens to bytes of their own, not to a view into memory that others use", () => {
    const opened = openEnvelope(key, sealEnvelope(key, new Uint8Array(5), []), bounds([]));
    expect(opened.buffer.byteLength).toBe(5);
  });
});
