import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";

describe("a process that waits for guests to end", () => {
  it.each(["late answer", "idle host"])("does not end before them: %s", (what) => {
    const args = ["--import", "tsx", "test/sandbox/closing.ts", what];
    const { status, stdout } = spawnSync("node", args, { encoding: "utf8" });
    expect({ status, stdout }).toEqual({ status: 0, stdout: "closed" });
  });
});
