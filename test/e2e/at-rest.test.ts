/** What lies on the disk: nothing of a tenant's values, in any form that a search would find. */
import { readFile, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { tenantIdOf, runIdOf } from "../../engine/ids.ts";
import { Embedded } from "./embedded.ts";

/** No canary stands in the code, which is plain: all come with the input, or are made from it. */
const PROJECT = {
  "workflows/secretive.ts": `
    import { createHook, FatalError } from "workflow";

    interface Canaries { token: string; metadata: string; result: string; error: string }

    export async function secretive(canaries: Canaries, heap: string) {
      "use workflow";
      const held = heap.split("").reverse().join("");
      let seen = "";
      for (let i = 0; i < 4; i++) seen += await echo(canaries.result + i);
      const { token, metadata } = canaries;
      const hook = createHook<string>({ token, metadata: { metadata } });
      try { await refuse(canaries.error); } catch (error) { seen += (error as Error).message; }
      const payload = await hook;
      return { held, seen, payload };
    }

    async function echo(text: string) {
      "use step";
      return text.toUpperCase();
    }

    async function refuse(text: string) {
      "use step";
      throw new FatalError(text);
    }
  `,
};

const INPUT = {
  token: "canary-token",
  metadata: "canary-metadata",
  result: "canary-result",
  error: "canary-error",
};

const CANARIES = [
  ...Object.values(INPUT),
  "CANARY-RESULT",
  "canary-heap",
  "paeh-yranac",
  "canary-payload",
];

/** The forms in which bytes may hide a text: as it is, in UTF-16, in base64 at each alignment. */
function formsOf(text: string): Buffer[] {
  const base64 = [0, 1, 2].map((shift) =>
    Buffer.from(
      Buffer.concat([Buffer.alloc(shift), Buffer.from(text)])
        .toString("base64")
        .slice(4, 12),
    ),
  );
  return [Buffer.from(text), Buffer.from(text, "utf16le"), ...base64];
}

async function foundIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  for (const file of await readdir(folder)) {
    const bytes = await readFile(join(folder, file));
    for (const canary of CANARIES) {
      if (formsOf(canary).some((form) => bytes.includes(form))) found.push(`${canary} in ${file}`);
    }
  }
  return found;
}

describe("at rest", () => {
  it("no input, result, error, token, payload or heap is found in the database, its WAL or a snapshot", async () => {
    await using embedded = await Embedded.open(PROJECT);
    const folder = dirname(embedded.databasePath);
    const { baton } = embedded;
    const run = await baton.start("secretive", [INPUT, "paeh-yranac"]);
    const store = baton.world.forTenant(tenantIdOf(run.tenantId));
    const snapshot = await vi.waitFor(
      async () => {
        const stored = await store.snapshots.get(runIdOf(run.runId));
        expect(stored).not.toBeNull();
        return stored;
      },
      { timeout: 20_000 },
    );
    expect(await foundIn(folder)).toEqual([]);
    for (const canary of CANARIES) {
      for (const form of formsOf(canary)) {
        expect(Buffer.from(snapshot?.bytes ?? []).includes(form)).toBe(false);
      }
    }

    await baton.resumeHook("canary-token", "canary-payload");
    expect(await run.returnValue()).toEqual({
      held: "canary-heap",
      seen: "CANARY-RESULT0CANARY-RESULT1CANARY-RESULT2CANARY-RESULT3canary-error",
      payload: "canary-payload",
    });
    await embedded.stop();
    expect(await foundIn(folder)).toEqual([]);
  });

  it("the search finds what is plain: a name of a workflow", async () => {
    await using embedded = await Embedded.open(PROJECT);
    await embedded.stop();
    const bytes = await readFile(embedded.databasePath);
    expect(formsOf("secretive").some((form) => bytes.includes(form))).toBe(true);
  });
});
