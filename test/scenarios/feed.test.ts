/** "The live event feed and polling" and "Linger interaction": what reaches a delivery that is at work. */
import { expect } from "vitest";
import type { CallAbout } from "../sim/faults.ts";
import { all, hook, program, scenario, sequence, sleep, step, useStage } from "./stage.ts";
import type { Scene } from "./stage.ts";

useStage();

const LINGER_MS = 30_000;
const lingering = { inlineStepsMax: 0, lingerMs: LINGER_MS };

/** A background step that ends while the run's delivery lingers. */
const lingers = program(sequence(step("slow", { ms: 12_000 }), step("next", { ms: 10 })));

const ofWorkers = ({ owner }: CallAbout) => owner.startsWith("worker");
const feedFault = (fault: "feed silent" | "feed failed" | "feed drops" | "feed stuck") => [
  { fault, at: "events.subscribe", when: ofWorkers, times: 20 } as const,
];
const completes = ({ count, run }: Scene) => {
  expect(count("run_completed")).toBe(1);
  return (run.events.at(-1)?.createdAt ?? 0) - (run.events[0]?.createdAt ?? 0);
};

scenario(
  "a delivery lingers for a background step and takes its outcome from the feed",
  { runs: [lingers], settings: lingering },
  (scene) => {
    expect(completes(scene)).toBeLessThan(20_000);
  },
);

for (const [name, fault] of [
  ["a feed that dies without a word", "feed silent"],
  ["a feed whose pushes stop while its heartbeats go on", "feed stuck"],
  ["a feed that loses events", "feed drops"],
  ["a feed that fails", "feed failed"],
] as const) {
  scenario(
    `${name} loses nothing: the poll finds it, or the linger ends and a wake does`,
    { runs: [lingers], settings: lingering, script: feedFault(fault) },
    (scene) => {
      expect(scene.faultsMet()).toBeGreaterThan(0);
      expect(completes(scene)).toBeLessThan(60_000);
    },
  );
}

scenario(
  "a subscription that is never answered holds up neither body nor delivery",
  {
    runs: [program(sequence(step("here", { ms: 3_000 }), step("next", { ms: 10 })))],
    settings: { inlineStepsMax: 3, lingerMs: LINGER_MS },
    script: [{ fault: "feed hangs", at: "events.subscribe", when: ofWorkers, times: 20 }],
  },
  (scene) => {
    expect(completes(scene)).toBeLessThan(10_000);
  },
);

scenario(
  "a refused subscription (run-feed-limit) polls, and does not linger",
  {
    runs: [lingers],
    settings: lingering,
    script: [{ fault: "refused", at: "events.subscribe", when: ofWorkers, times: 20 }],
  },
  (scene) => {
    completes(scene);
    const [first] = scene.orchestratorDeliveries();
    const heldMs = (first?.answeredAtMs ?? 0) - (first?.startedAtMs ?? 0);
    expect(heldMs).toBeLessThan(12_000);
  },
);

scenario(
  "an open hook that nobody resumes does not keep a delivery: a polling sleep beside it is cheap",
  {
    runs: [
      program(all(hook("h"), sequence(sleep(60_000), sleep(60_000), sleep(60_000))), {
        payloads: [{ hook: "h", afterMs: 600_000 }],
      }),
    ],
    settings: { inlineStepsMax: 3, lingerMs: LINGER_MS },
  },
  (scene) => {
    completes(scene);
    for (const { startedAtMs, answeredAtMs } of scene.orchestratorDeliveries().slice(0, 4)) {
      expect((answeredAtMs ?? Infinity) - startedAtMs).toBeLessThan(LINGER_MS / 2);
    }
  },
);

scenario(
  "a burst of payloads is taken by one delivery",
  {
    runs: [
      program(hook("h", 6), {
        payloads: [1, 2, 3, 4, 5, 6].map((i) => ({ hook: "h", afterMs: 20_000 + i * 3_000 })),
      }),
    ],
    settings: { inlineStepsMax: 3, lingerMs: LINGER_MS },
  },
  (scene) => {
    completes(scene);
    const messages = new Set(scene.orchestratorDeliveries().map(({ meta }) => meta.messageId));
    // The start, the first payload's wake, and what its re-runs cover.
    expect(messages.size).toBeLessThanOrEqual(3);
  },
);
