/**
 * The conformance suite: what every World must pass, for third parties as well (`baton/conformance`).
 * It is made of vitest cases; call `conformance(harness)` in a test file.
 *
 * Owns the cases. Each guarantee W… of `worlds/world.ts` names the cases that attack it.
 */
import { afterEach, beforeEach, describe } from "vitest";
import { present } from "../../engine/assert.ts";
import { batchCases } from "./batch.ts";
import { borderCases } from "./border.ts";
import { cellCases } from "./cells.ts";
import { dedupeCases } from "./dedupe.ts";
import { durableCases } from "./durable.ts";
import { feedCases } from "./feed.ts";
import { fenceCases } from "./fence.ts";
import { gateCases } from "./gate.ts";
import type { Harness, OpenWorld } from "./harness.ts";
import { Bench } from "./harness.ts";
import { hookCases } from "./hooks.ts";
import { logCases } from "./log.ts";
import { pagingCases } from "./paging.ts";
import { queueCases } from "./queue.ts";
import { rowCases } from "./rows.ts";
import { wallCases } from "./walls.ts";

export { SeededRandom } from "../seeded-random.ts";
export { HeldClock } from "./held-clock.ts";
export type { Harness, OpenWorld } from "./harness.ts";

const GROUPS = [
  fenceCases,
  logCases,
  pagingCases,
  batchCases,
  rowCases,
  hookCases,
  cellCases,
  borderCases,
  wallCases,
  feedCases,
  gateCases,
  queueCases,
  dedupeCases,
];

/** Defines a vitest suite: what every World has to keep, attacked through `harness`. */
export function conformance(harness: Harness): void {
  describe(`the ${harness.name} World`, () => {
    let open: OpenWorld | null = null;
    let bench: Bench | null = null;
    beforeEach(async () => {
      open = await harness.open();
      bench = new Bench(open);
    });
    afterEach(async () => {
      await open?.close();
      open = null;
      bench = null;
    });
    const use = () => present(bench, "a case runs in an open World");
    for (const cases of GROUPS) cases(use);
    if (harness.isDurable) durableCases(use);
  });
}
