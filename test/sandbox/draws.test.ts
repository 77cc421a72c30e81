import { describe, expect, it } from "vitest";
import { entityIdOf } from "../../engine/ids.ts";
import { BLOCK_BYTES, DRAW_PURPOSE, EntityIds, drawBlock } from "../../sandbox/draws.ts";

const seed = Uint8Array.from({ length: 32 }, (_, i) => i * 7);

describe("blocks", () => {
  it("ChaCha8's published block for the zero key and nonce comes out", () => {
    // draft-strombergson-chacha-test-vectors, TC1, 8 rounds, 256-bit key: nonce 0. The purpose is
    // a word of the nonce here, so purpose 0 is the vector's.
    const block = drawBlock(new Uint8Array(32), 0 as never, 0);
    expect(Buffer.from(block).toString("hex").slice(0, 64)).toBe(
      "3e00ef2f895f40d67f5bb8e81f09a5a12c840ec3ce9a7f3b181be188ef711a1e",
    );
    expect(block.length).toBe(BLOCK_BYTES);
  });

  it("purpose and index each change the block", () => {
    const texts = [
      drawBlock(seed, DRAW_PURPOSE.entityIds, 0),
      drawBlock(seed, DRAW_PURPOSE.random, 0),
      drawBlock(seed, DRAW_PURPOSE.entityIds, 1),
      drawBlock(seed, DRAW_PURPOSE.entityIds, 2 ** 32),
    ].map((block) => Buffer.from(block).toString("hex"));
    expect(new Set(texts).size).toBe(texts.length);
  });
});

describe("entity ids", () => {
  it("have the form that the host accepts, and none repeats in 10,000", () => {
    const ids = new EntityIds(seed, 1_700_000_000_000);
    const all = Array.from({ length: 10_000 }, (_, i) => ids.at("step", i));
    expect(all.map((id) => entityIdOf(id))).toEqual(all);
    expect(new Set(all).size).toBe(all.length);
  });

  it("depend on the ordinal alone, not on what was drawn before", () => {
    const forth = new EntityIds(seed, 5);
    const back = new EntityIds(seed, 5);
    const ordinals = Array.from({ length: 40 }, (_, i) => i);
    const ahead = ordinals.map((n) => forth.at("hook", n));
    const behind = ordinals.toReversed().map((n) => back.at("hook", n));
    expect(behind.toReversed()).toEqual(ahead);
  });
});
