/** The attempts that take little time; `npm run hostile` makes all of them. */
import { afterAll, describe, expect, it } from "vitest";
import { concluded } from "../../hostile/attack.ts";
import { AREAS } from "../../hostile/corpus.ts";
import { runAttack } from "../../hostile/run-attack.ts";
import { shippedTarget, weakenedTarget } from "../../hostile/targets.ts";

const QUICK = ["constructors", "prototypes", "forging", "errors", "run data", "senses", "bundles"];

const shipped = shippedTarget();
afterAll(() => shipped.sandbox.close());

describe.each(QUICK)("%s", (area) => {
  it.each((AREAS[area] ?? []).map((attack) => [attack.name, attack] as const))(
    "%s",
    async (_name, attack) => {
      const seen = await runAttack(attack, shipped);
      expect(attack.succeeded(seen) ? seen.run.decisions : "held").toBe("held");
      expect((attack.hasRun ?? concluded)(seen)).toBe(true);
      const weakened = await weakenedTarget(attack.weakening);
      const control = await runAttack(attack, weakened);
      await weakened.sandbox.close();
      expect(attack.succeeded(control)).toBe(true);
    },
  );
});
