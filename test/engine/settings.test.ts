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
});
