import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { DEFAULT_SETTINGS, settingsOf } from "../../engine/settings.ts";

describe("settings", () => {
  it("an empty environment gives the defaults", () => {
    expect(settingsOf({})).toEqual(DEFAULT_SETTINGS);
    expect(settingsOf({ WORKFLOW_MAX_INLINE_STEPS: " " })).toEqual(DEFAULT_SETTINGS);
  });

  it.each([
    ["0", 0],
    ["16", 16],
    ["99", 16],
  ])("inline steps are clamped: %s is %i", (text, value) => {
    expect(settingsOf({ WORKFLOW_MAX_INLINE_STEPS: text }).inlineStepsMax).toBe(value);
  });

  it.each([
    [undefined, 10],
    ["0", 0],
    ["16", 16],
    ["17", 16],
  ])("the depth of run-ahead is clamped: %s is %i", (text, value) => {
    expect(settingsOf({ WORKFLOW_RUN_AHEAD_DEPTH: text }).runAheadDepth).toBe(value);
  });

  it.each([
    ["0", false],
    ["false", false],
    ["1", true],
    ["no", true],
  ])("turbo and early starts are on unless plainly turned off: %s", (text, on) => {
    expect(settingsOf({ WORKFLOW_TURBO: text }).turbo).toBe(on);
    const early = settingsOf({ WORKFLOW_OPTIMISTIC_INLINE_START: text });
    expect(early.optimisticInlineStart).toBe(on);
  });

  it.each(["-1", "1.5", "many", "1e99"])("%s is refused with the name of the setting", (text) => {
    const read = () => settingsOf({ WORKFLOW_MAX_QUEUE_DELIVERIES: text });
    expect(read).toThrow(/WORKFLOW_MAX_QUEUE_DELIVERIES/);
  });

  it.each([
    [{ WORKFLOW_OPTIMISTIC_BACKGROUND_START: "1" }, true],
    [{ WORKFLOW_OPTIMISTIC_BACKGROUND_START: "true" }, true],
    [{ WORKFLOW_OPTIMISTIC_BACKGROUND_START: "yes" }, false],
    [{ WORKFLOW_OPTIMISTIC_BACKGROUND_START: "1", WORKFLOW_OPTIMISTIC_INLINE_START: "0" }, false],
  ])("an early background start is an opt-in that a plain no overrules: %j", (environment, on) => {
    expect(settingsOf(environment).optimisticBackgroundStart).toBe(on);
  });

  it("each is documented under its name, with its default", () => {
    const read = new Set<string>();
    const watching = new Proxy<Record<string, string | undefined>>(
      {},
      { get: (_environment, name) => void read.add(String(name)) },
    );
    settingsOf(watching);
    const rows = readFileSync("ARCHITECTURE.md", "utf8").matchAll(
      /^\| `([A-Z_0-9]+)` +\| (\S+) /gm,
    );
    const documented = new Map([...rows].map(([, name, standard]) => [name, standard]));
    expect(new Set(documented.keys())).toEqual(read);
    for (const [name, standard] of documented) {
      const value = { on: "1", off: "0" }[standard ?? ""] ?? standard;
      expect(settingsOf({ [name ?? ""]: value }), name).toEqual(DEFAULT_SETTINGS);
    }
  });
});
