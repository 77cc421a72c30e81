/** The fuzzes in their fast form; `npm run hostile` runs them long. */
import { describe, expect, it } from "vitest";
import { fuzzBorder, trustingReader } from "./border-fuzz.ts";
import { fuzzImports } from "./import-fuzz.ts";

describe("mutated reports", () => {
  it("lead to no crash and to nothing that was not handed out", () => {
    const { accepted, failures } = fuzzBorder(1, 8000);
    expect(failures).toEqual([]);
    // Some mutations leave a report sound; were there none, the reports would not be valid at all.
    expect(accepted).toBeGreaterThan(0);
  });

  it("are noticed when a host believes them", () => {
    expect(fuzzBorder(1, 200, trustingReader).failures).not.toEqual([]);
  });
});

describe("imports of the wasm module", () => {
  it("give the heap up for any pointer that leads out of it, and do no more", () => {
    const { functions, broken, failures } = fuzzImports(1, 5000);
    expect(failures).toEqual([]);
    expect(functions).toBeGreaterThan(15);
    expect(broken).toBeGreaterThan(100);
  });
});
