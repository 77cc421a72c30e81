/** Healthy runs of one tenant while six others take all the processor they can get. */
import { createHash } from "node:crypto";
import { bundleHashOf, runIdOf, tenantIdOf, ulid } from "../../engine/ids.ts";
import type { Sandbox } from "../../engine/ports/sandbox.ts";
import { createSandbox } from "../../sandbox/index.ts";
import { Outside, PLAIN_ANSWERS, decisionsOf } from "../sandbox/outside.ts";
import { WORKFLOW_NAME, tenantSource } from "../sandbox/tenant-source.ts";
import { UNINTERRUPTIBLE } from "./attacks/cpu.ts";
import { ATTACK_LIMITS } from "./run-attack.ts";

const BUSY = 6;
const HEALTHY = 6;
const CREATED_AT = 1_700_000_000_000;
/** Far more than a kill of each busy loop, twice, can cost one run. */
const LOSSES_MAX = 100;
const LIMITS = { ...ATTACK_LIMITS, cpuSoftMs: 250, cpuHardMs: 400 };

const HEALTHY_SOURCE = tenantSource(`
  let sum = 0;
  for (let i = 0; i < 15; i++) { for (let n = 0; n < 20000; n++) sum += n % 7; sum += await step("add")(i); }
  return sum;`);

export interface SiegeResult {
  readonly healthyRuns: number;
  /** Of them, those that did not end as they do in peace. */
  readonly harmed: number;
  /** Heaps that went with a killed thread and were opened again. */
  readonly losses: number;
  readonly convicted: number;
}

export async function siege(library: string): Promise<SiegeResult> {
  const lead = (sandbox: Sandbox, source: string, tenant: string) =>
    untilEnd({ sandbox, source, tenant, library });
  const quiet = createSandbox({ form: "threads" });
  const peace = await lead(quiet, HEALTHY_SOURCE, "victor");
  await quiet.close();
  const sandbox = createSandbox({ form: "threads" });
  const busy = UNINTERRUPTIBLE.slice(0, BUSY).map(([, , code], i) =>
    lead(sandbox, tenantSource(code), `mallory-${i}`),
  );
  const healthy = Array.from({ length: HEALTHY }, () => lead(sandbox, HEALTHY_SOURCE, "victor"));
  const results = await Promise.all(healthy);
  const ends = await Promise.all(busy);
  await sandbox.close();
  return {
    healthyRuns: HEALTHY,
    harmed: results.filter(({ decisions }) => decisions !== peace.decisions).length,
    losses: results.reduce((sum, { losses }) => sum + losses, 0),
    convicted: ends.filter(({ decisions }) => decisions.includes("CPU_LIMIT_EXCEEDED")).length,
  };
}

interface Lead {
  readonly sandbox: Sandbox;
  readonly source: string;
  readonly tenant: string;
  readonly library: string;
}

/** As the engine does: a lost heap is opened again and fed the log. */
async function untilEnd({ sandbox, source, tenant, library }: Lead) {
  const tenantId = tenantIdOf(tenant);
  const hash = createHash("sha256").update(source).digest();
  const request = {
    run: { tenantId, runId: runIdOf(`wrun_${ulid(CREATED_AT, hash)}`) },
    bundle: {
      tenantId,
      hash: bundleHashOf(hash.toString("hex")),
      workflowCode: source,
      guestLibrary: library,
    },
    workflowName: WORKFLOW_NAME,
    seed: new Uint8Array(32).fill(3),
    createdAt: CREATED_AT,
    limits: LIMITS,
  };
  const outside = new Outside({
    startedAt: CREATED_AT,
    answers: PLAIN_ANSWERS,
    choose: () => 0,
  });
  outside.begin();
  for (let losses = 0; losses < LOSSES_MAX; losses++) {
    const opened = await sandbox.open(request);
    if (opened.kind === "lost") continue;
    if (opened.kind !== "opened") return { decisions: JSON.stringify(opened), losses };
    let events = outside.log.slice();
    for (;;) {
      const result = await opened.heap.pass(events);
      if (result.kind === "lost") break;
      events = result.kind === "quiet" && result.completion === null ? outside.next(result) : [];
      if (events.length > 0) continue;
      opened.heap.close();
      return { decisions: decisionsOf(result), losses };
    }
  }
  return { decisions: "lost for good", losses: LOSSES_MAX };
}
