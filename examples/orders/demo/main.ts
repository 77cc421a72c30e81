/**
 * The main job, shown and checked: 60 orders on the local World, whose engine process is killed
 * twice with SIGKILL, once while bodies run and once while every run sleeps. Every outcome is
 * checked against an oracle that imports neither the example nor Baton.
 */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { runCheck } from "../../../bench/check.ts";
import type { CheckContext, CheckResult } from "../../../bench/check.ts";
import { ulid } from "../../../engine/ids.ts";
import { expectedOf } from "../oracle.ts";
import type { Expected, OrderEntry } from "../oracle.ts";
import { bodiesOf, ledgerLines } from "./bodies.ts";
import type { OrderBodies } from "./bodies.ts";
import { EngineHandle, Refused, Unanswered } from "./engine-handle.ts";
import type { DeliveryLine, Result, State } from "./messages.ts";

/** Of 60 orders about two thirds sleep before they ship. */
const RESTORES_MIN = 30;
/** Until the first kill: enough bodies at work, and enough done for something to be lost. */
const BODIES_AT_KILL_MIN = 3;
const CHARGES_AT_KILL_MIN = 10;
const LOOK_MS = 100;
const ASK_AGAIN_MS = 200;
/** Run ids must not depend on when the demo runs. */
const RUN_ID_TIME_MS = Date.UTC(2026, 0, 1);

interface Tally {
  passes: number;
  /** Heaps that came back from a snapshot as the first of the run in a new process. */
  restoresAfterDeath: number;
  restores: number;
  coldStarts: number;
  lastLife: number;
}

interface Placed {
  readonly entry: OrderEntry;
  readonly runId: string;
  readonly expected: Expected;
  readonly tally: Tally;
}

class Demo {
  readonly #context: CheckContext;
  readonly #orders: readonly Placed[];
  readonly #byRun: ReadonlyMap<string, Placed>;
  readonly #engine: EngineHandle;
  readonly #ledger: string;
  readonly #startedAt = Date.now();

  constructor(context: CheckContext, folder: string, seed: string) {
    this.#context = context;
    this.#ledger = join(folder, "ledger.jsonl");
    const file = join(import.meta.dirname, "..", "orders.json");
    const entries = JSON.parse(readFileSync(file, "utf8")) as OrderEntry[];
    this.#orders = entries.map((entry) => placed(entry, seed));
    this.#byRun = new Map(this.#orders.map((order) => [order.runId, order]));
    this.#engine = new EngineHandle(folder, this.#ledger, {
      onDelivery: (line, life) => this.#note(line, life),
      onTrouble: (text) => this.#say(`! ${text}`),
    });
  }

  async run(): Promise<CheckResult> {
    await this.#open();
    const answers = this.#orders
      .filter(({ expected, entry }) => expected.asks && entry.answer !== null)
      .map((order) => this.#answer(order));
    await Promise.all(this.#orders.map((order) => this.#start(order)));
    this.#say(`${this.#orders.length} orders started`);

    const charged = () =>
      ledgerLines(this.#ledger).filter(({ effect }) => effect === "charge").length;
    await this.#until(
      (state) => state.bodies >= BODIES_AT_KILL_MIN && charged() >= CHARGES_AT_KILL_MIN,
    );
    await this.#killAndOpen("while bodies ran");

    await Promise.all(answers);
    await this.#until((state) => state.busy === 0 && state.sleeping > 0);
    await this.#killAndOpen("while every run slept");

    await this.#until((state) => state.over === this.#orders.length);
    const runIds = this.#orders.map(({ runId }) => runId);
    const results = await this.#engine.ask<Result[]>({ kind: "results", runIds });
    await this.#engine.close();
    return this.#judge(results);
  }

  /** Kills what is left of the engine process, whatever came between. */
  async end(): Promise<void> {
    await this.#engine.kill();
  }

  async #open(): Promise<void> {
    const { startMs } = await this.#engine.open();
    this.#say(`engine process ${this.#engine.life} is ready after ${startMs} ms`);
  }

  async #killAndOpen(when: string): Promise<void> {
    await this.#engine.kill();
    this.#say(`engine process ${this.#engine.life} was killed ${when} (SIGKILL)`);
    await this.#open();
  }

  /** A start that was not answered is sent again under the same id: at most one run comes of it. */
  #start(order: Placed): Promise<void> {
    const { runId, entry } = order;
    return this.#askUntilDone({ kind: "start", runId, order: entry.input }, ["ENTITY_CONFLICT"]);
  }

  async #answer({ entry }: Placed): Promise<void> {
    const { answer, input } = entry;
    if (answer === null) return;
    await pause(answer.afterMs);
    const { approved, by } = answer;
    await this.#askUntilDone({ kind: "approve", orderId: input.id, answer: { approved, by } }, []);
    this.#say(`${by} ${approved ? "approved" : "refused"} ${input.id}`);
  }

  async #askUntilDone(
    request: Parameters<EngineHandle["ask"]>[0],
    doneCodes: readonly string[],
  ): Promise<void> {
    for (;;) {
      try {
        await this.#engine.ask(request);
        return;
      } catch (error) {
        if (error instanceof Refused && doneCodes.includes(error.code)) return;
        const mayComeLater = error instanceof Refused && error.code === "HOOK_NOT_FOUND";
        if (!mayComeLater && !(error instanceof Unanswered)) throw error;
      }
      await pause(ASK_AGAIN_MS);
    }
  }

  async #until(isReached: (state: State) => boolean): Promise<void> {
    for (;;) {
      const state = await this.#engine.ask<State>({ kind: "state" });
      const { over, sleeping, busy, bodies } = state;
      this.#context.progress(`${over} over, ${sleeping} asleep, ${busy} busy, ${bodies} bodies`);
      if (isReached(state)) return;
      await pause(LOOK_MS);
    }
  }

  #note(line: DeliveryLine, life: number): void {
    const order = this.#byRun.get(line.runId);
    if (order === undefined) return;
    const { tally } = order;
    tally.passes += line.passes;
    tally.restores += line.restores;
    tally.coldStarts += line.coldStarts;
    if (line.restores > 0 && life > 1 && tally.lastLife < life) tally.restoresAfterDeath += 1;
    if (line.passes > 0) tally.lastLife = life;
    const from = line.restores > 0 ? "from a snapshot" : line.coldStarts > 0 ? "from cold" : "live";
    this.#say(`${order.entry.input.id} ${line.outcome}, ${line.passes} passes, ${from}`);
  }

  #say(text: string): void {
    const seconds = ((Date.now() - this.#startedAt) / 1000).toFixed(2).padStart(6);
    this.#context.say(`${seconds} s  ${text}`);
  }

  #judge(results: readonly Result[]): CheckResult {
    const lines = ledgerLines(this.#ledger);
    let right = 0;
    let again = 0;
    this.#context.say(`\n${TABLE_HEAD}`);
    for (const [i, order] of this.#orders.entries()) {
      const result = results[i];
      if (result === undefined) continue;
      const bodies = bodiesOf(lines, order.entry.input.id);
      const isRight = isAsExpected(order.expected, result, bodies);
      if (isRight) right += 1;
      for (const count of bodies.again.values()) again += count;
      this.#context.say(tableLine(order, { result, bodies, isRight }));
    }
    const sum = (name: "passes" | "restores" | "restoresAfterDeath" | "coldStarts") =>
      this.#orders.reduce((total, { tally }) => total + tally[name], 0);
    const restored = sum("restoresAfterDeath");
    return {
      ok: right === this.#orders.length && restored >= RESTORES_MIN,
      figures: {
        orders: this.#orders.length,
        right,
        resumed_from_snapshot_after_death: restored,
        resumed_from_snapshot: sum("restores"),
        started_cold: sum("coldStarts"),
        passes: sum("passes"),
        bodies_run_again: again,
        run_ids_sha256: sha256(this.#orders.map(({ runId }) => runId).join()).toString("hex"),
        seconds: Math.round((Date.now() - this.#startedAt) / 100) / 10,
      },
    };
  }
}

function placed(entry: OrderEntry, seed: string): Placed {
  const random = sha256(`${seed}/${entry.input.id}`).subarray(0, 10);
  return {
    entry,
    runId: `wrun_${ulid(RUN_ID_TIME_MS, random)}`,
    expected: expectedOf(entry),
    tally: { passes: 0, restores: 0, restoresAfterDeath: 0, coldStarts: 0, lastLife: 0 },
  };
}

function sha256(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/**
 * The outcome itself, every effect that must be there, and no other. A charge that was to fail leaves
 * no line where its process was killed first, and its attempt counts all the same.
 */
function isAsExpected(expected: Expected, { result }: Result, bodies: OrderBodies): boolean {
  const isCut = bodies.lost > 0 && !bodies.effects.includes("charge failed");
  const effects = isCut
    ? expected.effects.filter((effect) => effect !== "charge failed")
    : expected.effects;
  return (
    isDeepStrictEqual(result, expected.result) &&
    isDeepStrictEqual([...bodies.effects].sort(), [...effects].sort()) &&
    !bodies.again.has("unexplained")
  );
}

const TABLE_HEAD =
  "order     run                             outcome    events passes snapshot cold  bodies again";

function tableLine(
  { entry, runId, tally }: Placed,
  { result, bodies, isRight }: { result: Result; bodies: OrderBodies; isRight: boolean },
): string {
  const again = [...bodies.again].map(([reason, count]) => `${count} ${reason}`).join(", ");
  const columns = [
    entry.input.id.padEnd(9),
    runId,
    `${isRight ? "" : "WRONG "}${outcomeWord(result)}`.padEnd(10),
    String(result.events).padStart(6),
    String(tally.passes).padStart(6),
    String(tally.restores).padStart(8),
    String(tally.coldStarts).padStart(4),
    again === "" ? "" : ` ${again}`,
  ];
  return columns.join(" ");
}

function outcomeWord({ result }: Result): string {
  if (result.kind !== "completed") return result.kind;
  return String((result.output as { status?: unknown }).status);
}

await runCheck(
  {
    name: "demo",
    description:
      "Runs 60 orders through Baton on one machine, kills its engine process twice, and checks every outcome.",
    options: [
      { flags: "--seed <text>", description: "what run ids follow from", fallback: "orders" },
      { flags: "--keep <folder>", description: "keep the data in this (new) folder" },
    ],
    run: async (context) => {
      const kept = context.options["keep"];
      const folder = typeof kept === "string" ? kept : mkdtempSync(join(tmpdir(), "baton-orders-"));
      const demo = new Demo(context, folder, String(context.options["seed"]));
      try {
        return await demo.run();
      } finally {
        await demo.end();
        if (typeof kept !== "string") rmSync(folder, { recursive: true, force: true });
      }
    },
  },
  process.argv.slice(2),
);
