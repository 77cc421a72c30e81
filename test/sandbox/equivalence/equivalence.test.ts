/**
 * A heap is a function of its events: led live, put away and brought back after every pass in
 * another process, or replayed from nothing, it decides the same, byte for byte.
 */
import { assert as holds, asyncProperty, constantFrom, integer, nat } from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { HeapImage, HeapRequest } from "../../../engine/ports/sandbox.ts";
import { createSandbox } from "../../../sandbox/index.ts";
import { chooser } from "../chooser.ts";
import { Elsewhere } from "./elsewhere.ts";
import { lasting, leadLive, linesOf, replayCold, requestOf } from "./lead.ts";
import type { Pass } from "./lead.ts";
import { PROGRAMS } from "./programs.ts";

const sandbox = createSandbox({ form: "calling-thread" });
let places: readonly [Elsewhere, Elsewhere];

beforeAll(() => {
  places = [
    new Elsewhere({ TZ: "Pacific/Kiritimati", LANG: "tr_TR.UTF-8", LC_ALL: "tr_TR.UTF-8" }),
    new Elsewhere({ TZ: "America/St_Johns", LANG: "ar_EG.UTF-8" }),
  ];
});

afterAll(async () => {
  for (const place of places) place.close();
  await sandbox.close();
});

/** Each pass in the process that did not do the one before, from what that one put away. */
async function restoredAfterEveryPass(request: HeapRequest, passes: readonly Pass[]) {
  let image: HeapImage | null = null;
  let before = "";
  for (const [i, pass] of passes.entries()) {
    const from: HeapRequest = image === null ? request : { ...request, image };
    const place = places[i % 2 === 0 ? 0 : 1];
    const reply = await place.do({ kind: "restore", request: from, events: pass.events });
    if (i > 0) expect(reply.before && lasting(reply.before)).toBe(before);
    expect(reply.after).toBe(pass.decisions);
    before = lasting(reply.after);
    image = reply.image;
    if (i < passes.length - 1) expect(image).not.toBeNull();
  }
}

async function replayedFromNothing(request: HeapRequest, passes: readonly Pass[], at: number[]) {
  for (const i of at) {
    const cold = await replayCold(sandbox, request, passes, i);
    expect(lasting(cold)).toBe(lasting(passes[i]?.decisions ?? ""));
    const lines = passes.slice(0, i + 1).flatMap(({ decisions }) => linesOf(decisions));
    expect(linesOf(cold)).toEqual(lines);
  }
}

function hasEnded(passes: readonly Pass[]): boolean {
  const last = passes.at(-1)?.result;
  return last?.kind === "quiet" && last.completion !== null;
}

describe.each(Object.entries(PROGRAMS))("%s", (name, source) => {
  it("decide the same live, restored in other processes after every pass, and from cold", async () => {
    const request = requestOf(source);
    // One answer after another where passes are few, larger steps where they would be thousands.
    const passes = await leadLive(
      sandbox,
      request,
      name === "joins of 1,000" ? chooser(5) : () => 0,
    );
    expect(hasEnded(passes)).toBe(true);
    expect(passes.length).toBeGreaterThan(1);
    await restoredAfterEveryPass(request, passes);
    const every = passes.length > 12 ? Math.ceil(passes.length / 6) : 1;
    const at = passes.map((_, i) => i).filter((i) => i % every === 0 || i === passes.length - 1);
    await replayedFromNothing(request, passes, at);
    const elsewhere = await places[1].do({
      kind: "replay",
      request,
      events: passes.flatMap(({ events }) => events),
    });
    expect(lasting(elsewhere.after)).toBe(lasting(passes.at(-1)?.decisions ?? ""));
  });
});

describe("any order of answers", () => {
  const names = Object.keys(PROGRAMS).filter((name) => name !== "joins of 1,000");
  it("decides the same on all three ways", async () => {
    await holds(
      asyncProperty(constantFrom(...names), integer(), nat(255), async (name, order, seed) => {
        const request = requestOf(PROGRAMS[name] ?? "", seed);
        const passes = await leadLive(sandbox, request, chooser(order));
        expect(hasEnded(passes)).toBe(true);
        await restoredAfterEveryPass(request, passes);
        await replayedFromNothing(request, passes, [passes.length - 1]);
      }),
      { numRuns: 25 },
    );
    // Hundreds of restores in other processes: minutes on a machine with other work.
  }, 180_000);
});

describe("chance", () => {
  it("differs between two runs of one bundle, and is the same on every replay of either", async () => {
    const source = PROGRAMS["randomness and ids"] ?? "";
    const [one, two] = await Promise.all(
      [1, 2].map((seed) => leadLive(sandbox, requestOf(source, seed), () => 0)),
    );
    const drawsOf = (passes: readonly Pass[] | undefined) =>
      new Set(
        JSON.stringify(passes?.map(({ decisions }) => decisions)).match(
          /0\.\d{8,}|[0-9a-f-]{36}|step_\w+/g,
        ),
      );
    const shared = [...drawsOf(one)].filter((draw) => drawsOf(two).has(draw));
    expect(drawsOf(one).size).toBeGreaterThan(5);
    expect(shared).toEqual([]);
    for (const [i, passes] of [one, two].entries()) {
      const request = requestOf(source, i + 1);
      const events = (passes ?? []).flatMap((pass) => pass.events);
      for (const place of places) {
        const { after } = await place.do({ kind: "replay", request, events });
        expect(lasting(after)).toBe(lasting(passes?.at(-1)?.decisions ?? ""));
      }
    }
  });
});
