/**
 * The corpus: unmodified Workflow SDK programs, one for each feature, built, admitted and run with
 * their steps in heaps, in every way of running a run.
 */
import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createBaton } from "../../engine/compose.ts";
import type { Baton } from "../../engine/compose.ts";
import { buildBundle } from "../../tenants/bundles/build.ts";
import type { BuiltBundle } from "../../tenants/bundles/build.ts";
import { createMemoryWorld } from "../../worlds/memory/index.ts";
import { CASES, CORPUS, programFiles, thrown, workflowIdOf } from "./corpus/cases.ts";
import type { Case } from "./corpus/cases.ts";

const WAYS = [
  { heaps: "warm", inlineStepsMax: 3 },
  { heaps: "warm", inlineStepsMax: 0 },
  { heaps: "cold", inlineStepsMax: 3 },
  { heaps: "cold", inlineStepsMax: 0 },
] as const;

interface Outcome {
  readonly output: unknown;
  readonly meanwhile: unknown;
}

let whole: BuiltBundle;
beforeAll(async () => {
  whole = await buildBundle({ projectRoot: CORPUS, entries: ["programs"] });
});

describe("the corpus", () => {
  it("has a case for every program", () => {
    expect(CASES.map(({ file }) => file).sort()).toEqual(programFiles());
    expect(CASES.length).toBeGreaterThanOrEqual(40);
  });

  it("is written against the SDK's types", () => {
    const { status, stdout } = spawnSync("npx", ["tsc", "-p", join(CORPUS, "tsconfig.json")], {
      encoding: "utf8",
    });
    expect([status, stdout]).toEqual([0, ""]);
  });
});

describe.each(WAYS)("on $heaps heaps with $inlineStepsMax steps in place", (way) => {
  let baton: Baton;
  let folder: string;
  const outcomes = new Map<Case, Promise<Outcome>>();
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "baton-corpus-"));
    baton = await createBaton({
      world: createMemoryWorld(),
      keyFolder: folder,
      // Each thread makes the bundle's images for itself.
      sandbox: { form: "threads", threads: 1, stepThreads: 3 },
      settings: {
        inlineStepsMax: way.inlineStepsMax,
        isCold: way.heaps === "cold",
        webhookBaseUrl: "https://hooks.example/in",
      },
    });
    await baton.bundles.deploy(whole);
    // All at once, as they would come.
    for (const one of CASES) outcomes.set(one, outcomeOf(baton, one));
    await Promise.allSettled(outcomes.values());
  });
  afterAll(async () => {
    await baton.close();
    await rm(folder, { recursive: true, force: true });
  });

  it.each(CASES)("$file gives what the SDK gives", async (one) => {
    expect(await outcomes.get(one)).toEqual({ output: one.output, meanwhile: one.meanwhile });
  });
});

async function outcomeOf(baton: Baton, one: Case): Promise<Outcome> {
  const token = `token of ${one.file}`;
  const run = await baton.start(workflowIdOf(one), one.args?.(token) ?? []);
  const [output, meanwhile] = await Promise.all([
    run.returnValue().catch(thrown),
    one.outside?.(baton, run, token),
  ]);
  return { output, meanwhile };
}
