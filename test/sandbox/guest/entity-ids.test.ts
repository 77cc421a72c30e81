import { createHmac } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { entityIdOf } from "../../../engine/ids.ts";
import { EntityIds, idSource } from "../../../sandbox/guest/entity-ids.ts";
import { hmac } from "../../../sandbox/guest/sha256.ts";

const seed = Uint8Array.from({ length: 32 }, (_, i) => i * 7);
const seedHex = Buffer.from(seed).toString("hex");

describe("hashes", () => {
  it("equal those of Node for every message and key", () => {
    const key = fc.uint8Array({ minLength: 32, maxLength: 32 });
    fc.assert(
      fc.property(key, fc.uint8Array({ maxLength: 300 }), (key, message) => {
        const text = Buffer.from(message).toString("latin1");
        const mac = createHmac("sha256", key).update(message).digest("hex");
        expect(Buffer.from(hmac(key, text)).toString("hex")).toBe(mac);
      }),
    );
  });
});

describe("entity ids", () => {
  it("have the form that the host accepts, and none repeats in 100,000", () => {
    const ids = new EntityIds(seed, 1_700_000_000_000);
    const all = Array.from({ length: 100_000 }, (_, i) => ids.at("step", i));
    for (const id of all.slice(0, 1000)) expect(entityIdOf(id)).toBe(id);
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

  it("tell which draw they came from, and that a foreign one came from none", () => {
    const drawn = fc.integer({ min: 1, max: 0xffffffff });
    const seeds = fc.uint8Array({ minLength: 32, maxLength: 32 });
    fc.assert(
      fc.property(
        seeds,
        drawn,
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        (bytes, drawn, share) => {
          const ids = idSource(Buffer.from(bytes).toString("hex"), 1_700_000_000_000);
          const ordinal = Math.floor(drawn * share);
          const id = ids.idOf("wait", ordinal);
          expect(ids.ordinalOf(id, drawn)).toBe(ordinal);
          expect(ids.ordinalOf(id, ordinal)).toBe(-1);
          const other = idSource(seedHex, 1_700_000_000_000);
          expect(other.ordinalOf(id, 0xffffffff)).toBe(-1);
        },
      ),
    );
  });

  it("differ by seed and by time of creation", () => {
    const first = new EntityIds(seed, 5).at("step", 0);
    expect(new EntityIds(new Uint8Array(32), 5).at("step", 0)).not.toBe(first);
    expect(new EntityIds(seed, 6).at("step", 0)).not.toBe(first);
  });

  it("are the same in every build: a running run's ids are in its log", () => {
    const ids = new EntityIds(seed, 1_700_000_000_000);
    expect([ids.at("step", 0), ids.at("hook", 1), ids.at("wait", 70_000)]).toMatchInlineSnapshot(`
      [
        "step_01HF7YAT00S4BK2SMS7PE1PZC3",
        "hook_01HF7YAT00PJNPN1EKE5D53V5W",
        "wait_01HF7YAT003YFYN0M81H02C3P6",
      ]
    `);
  });
});
