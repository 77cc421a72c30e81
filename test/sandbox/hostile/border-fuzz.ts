/**
 * Mutated reports against the host's reading of them.
 *
 * Valid reports come from a small model of a heap; each is changed in its structure or its bytes
 * and handed to the same code that reads real ones. Whatever is accepted is checked against what
 * the model's run could have been handed out, with none of the parser's code.
 */
import { EntityIds } from "../../../sandbox/guest/entity-ids.ts";
import { chooser } from "../chooser.ts";
import type { Choose } from "../chooser.ts";
import { mutated } from "./mutations.ts";
import { OpenOperations } from "../../../sandbox/open-operations.ts";
import type { ReportRead, Standing } from "../../../sandbox/open-operations.ts";
import { divergenceIn, registeredIn } from "../../../sandbox/border.ts";
import { Violation } from "../../../sandbox/guest-text.ts";
import { slotOf } from "../../../engine/slots.ts";
import type { HeapLimits } from "../../../engine/ports/sandbox.ts";
import type { EntityKind } from "../../../engine/ids.ts";
import type { Ask, Report } from "../../../sandbox/protocol.ts";

const RUN = { seed: new Uint8Array(32).fill(11), createdAt: 1_700_000_000_000 };
const LIMITS: HeapLimits = {
  heapBytesMax: 32 << 20,
  cpuSoftMs: 1,
  cpuHardMs: 1,
  stackBytesMax: 1,
  jobsPerEventMax: 1,
  openOperationsMax: 40,
  payloadBytesMax: 2000,
  consoleBytesPerPassMax: 500,
};
const KINDS = ["step", "wait", "hook", "attr"] as const;
/** More than any model run draws. */
const ORDINALS_MAX = 200;

export interface FuzzResult {
  readonly messages: number;
  readonly accepted: number;
  /** What should not have happened, each with the message that led to it. */
  readonly failures: readonly string[];
}

/** Reads the last of some reports of one heap; the ones before it are sound. */
export type Reader = (reports: readonly string[], isFull: boolean) => ReportRead;

export const shippedReader: Reader = (reports, isFull) => {
  const operations = new OpenOperations(RUN, LIMITS);
  for (const before of reports.slice(0, -1)) operations.read(before, false);
  return operations.read(reports.at(-1) ?? "", isFull);
};

/** What a host does that believes its guests; shows that the fuzz would notice. */
export const trustingReader: Reader = (reports) => {
  const { asked, awaited, console } = JSON.parse(reports.at(-1) ?? "") as Report;
  const operations = asked.map(({ id, k }) => ({ kind: k, correlationId: id }));
  const standing = { operations, awaitedHooks: awaited, completion: null, console };
  return { kind: "standing", standing: standing as unknown as Standing };
};

export function fuzzBorder(
  seed: number,
  messages: number,
  read: Reader = shippedReader,
): FuzzResult {
  const choose = chooser(seed);
  const handedOut = new HandedOut();
  const failures: string[] = [];
  let accepted = 0;
  for (let i = 0; i < messages && failures.length < 10; i++) {
    const reports = modelRun(choose);
    const at = choose(reports.length);
    const text = mutated(JSON.stringify(reports[at]), choose);
    const before = reports.slice(0, at).map((report) => JSON.stringify(report));
    const why = attempt(() => {
      const answer = read([...before, text], choose(4) === 0);
      if (answer.kind !== "standing") return null;
      accepted++;
      return handedOut.complaint(answer.standing);
    });
    if (why !== null) failures.push(`seed ${seed}, message ${i}: ${why}: ${text.slice(0, 2000)}`);
    failures.push(...smallTexts(text, choose));
  }
  return { messages, accepted, failures };
}

/** The other two texts that a heap writes, read from the same garbage. */
function smallTexts(text: string, choose: Choose): string[] {
  const divergence = `{"diverged":{"slot":4,"found":"a","expected":"b"}}`;
  const registered = `{"workflows":["w"],"steps":["s","t"]}`;
  const garbage = choose(2) === 0 ? text : mutated(choose(2) ? divergence : registered, choose);
  const why = attempt(() => {
    try {
      const { slot, found, expected, ...rest } = divergenceIn(garbage, slotOf(4));
      if (slot !== 4 || typeof found !== "string" || typeof expected !== "string") return "types";
      if (Object.keys(rest).length > 0) return "a field that nobody named";
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
    }
    try {
      const { workflows, steps } = registeredIn(garbage);
      if (![...workflows, ...steps].every((name) => typeof name === "string")) return "types";
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
    }
    return null;
  });
  return why === null ? [] : [`${why}: ${garbage.slice(0, 2000)}`];
}

function attempt(run: () => string | null): string | null {
  try {
    const why = run();
    if (why !== null) return why;
  } catch (error) {
    return `it threw ${String(error)}`;
  }
  return ({} as Record<string, unknown>)["polluted"] === undefined ? null : "it polluted";
}

/** What the run may name, found without the parser. */
class HandedOut {
  readonly #kinds = new Map<string, EntityKind>();

  constructor() {
    const ids = new EntityIds(RUN.seed, RUN.createdAt);
    for (const kind of KINDS) {
      for (let ordinal = 0; ordinal <= ORDINALS_MAX; ordinal++) {
        this.#kinds.set(ids.at(kind, ordinal), kind);
      }
    }
  }

  complaint(standing: {
    operations: readonly object[];
    awaitedHooks: readonly string[];
    completion: object | null;
    console: readonly object[];
  }): string | null {
    for (const operation of standing.operations) {
      const why = this.#operationComplaint(operation as Record<string, unknown>);
      if (why !== null) return why;
    }
    const hooks = standing.operations.filter((o) => (o as { kind: string }).kind === "hook");
    const hookIds = hooks.map((o) => (o as { correlationId: string }).correlationId);
    if (!standing.awaitedHooks.every((id) => hookIds.includes(id))) return "an awaited stranger";
    const { completion } = standing;
    if (completion !== null && !COMPLETIONS.some((shape) => fits(completion, shape))) {
      return "a completion of an unknown form";
    }
    const isLine = (line: object) => fits(line, { level: isLevel, text: isText });
    return standing.console.every(isLine) ? null : "a console line of an unknown form";
  }

  #operationComplaint(operation: Record<string, unknown>): string | null {
    const shape = SHAPES[operation["kind"] as string];
    if (shape === undefined) return `the kind ${String(operation["kind"])}`;
    if (!fits(operation, shape.fields)) return `an operation ${JSON.stringify(operation)}`;
    const kind = this.#kinds.get(operation["correlationId"] as string);
    return kind === shape.entity ? null : `the id ${String(operation["correlationId"])}`;
  }
}

type Check = (value: unknown) => boolean;
const isText: Check = (value) => typeof value === "string";
const isFlag: Check = (value) => typeof value === "boolean";
const isWhole: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isPayload: Check = (value) =>
  value instanceof Uint8Array && value.length <= LIMITS.payloadBytesMax + 4;
const isLevel: Check = (value) =>
  ["debug", "log", "info", "warn", "error"].includes(value as string);
const isChanges: Check = (value) =>
  Array.isArray(value) &&
  value.every((change) =>
    fits(change as object, { key: isText, value: (v) => v === null || isText(v) }),
  );
const is =
  (expected: string): Check =>
  (value) =>
    value === expected;

function fits(value: object, shape: Readonly<Record<string, Check>>): boolean {
  const keys = Reflect.ownKeys(value);
  if (Object.getPrototypeOf(value) !== Object.prototype) return false;
  if (keys.length !== Object.keys(shape).length) return false;
  return Object.entries(shape).every(
    ([key, check]) => Object.hasOwn(value, key) && check((value as Record<string, unknown>)[key]),
  );
}

const SHAPES: Readonly<
  Record<string, { entity: EntityKind; fields: Readonly<Record<string, Check>> } | undefined>
> = {
  step: {
    entity: "step",
    fields: { kind: is("step"), correlationId: isText, stepName: isText, input: isPayload },
  },
  unserializable_step: {
    entity: "step",
    fields: {
      kind: is("unserializable_step"),
      correlationId: isText,
      stepName: isText,
      error: isPayload,
    },
  },
  wait: {
    entity: "wait",
    fields: { kind: is("wait"), correlationId: isText, resumeAt: isWhole },
  },
  hook: {
    entity: "hook",
    fields: {
      kind: is("hook"),
      correlationId: isText,
      token: isText,
      metadata: (value) => value === null || isPayload(value),
      isWebhook: isFlag,
      isSystem: isFlag,
      force: isFlag,
      retentionMs: isWhole,
      awaitsConflict: isFlag,
    },
  },
  dispose_hook: { entity: "hook", fields: { kind: is("dispose_hook"), correlationId: isText } },
  set_attributes: {
    entity: "attr",
    fields: { kind: is("set_attributes"), correlationId: isText, changes: isChanges },
  },
};

const COMPLETIONS: readonly Readonly<Record<string, Check>>[] = [
  { kind: is("completed"), output: isPayload },
  {
    kind: is("failed"),
    error: isPayload,
    errorCode: (value) => typeof value === "string" && /^[A-Z_]+$/.test(value),
  },
];

/** Up to four reports of one heap that does as it should. */
function modelRun(choose: Choose): Report[] {
  const ids = new EntityIds(RUN.seed, RUN.createdAt);
  const open: { id: string; k: Ask["k"] }[] = [];
  let drawn = 0;
  return Array.from({ length: 1 + choose(4) }, (_, i) => {
    const asked: Ask[] = [];
    for (let count = choose(4); count > 0; count--) {
      const k = KINDS[choose(4)] as (typeof KINDS)[number];
      const ask = askOf(k, drawn, ids.at(k, drawn));
      drawn++;
      asked.push(ask);
      open.push({ id: ask.id, k });
    }
    const hooks = open.filter((entry) => entry.k === "hook").map((entry) => entry.id);
    const closed = open.length > 0 && choose(2) === 0 ? [open.splice(choose(open.length), 1)] : [];
    const closedIds = closed.flat().map((entry) => entry.id);
    const left = hooks.filter((id) => !closedIds.includes(id));
    if (left[0] !== undefined && choose(3) === 0)
      asked.push({ k: "dispose", n: null, id: left[0] });
    return {
      asked,
      closed: closedIds,
      awaited: left.slice(0, 1),
      awaitedConflicts: left.slice(1, 2),
      done: i === 3 ? { ok: choose(2) === 0, text: `["done"]`, code: null } : null,
      console: choose(3) === 0 ? [{ level: "log", text: "line" }] : [],
      drawn,
    };
  });
}

function askOf(k: (typeof KINDS)[number], n: number, id: string): Ask {
  switch (k) {
    case "step":
      return { k, n, id, name: "step//./a//b", input: `[{"args":1},[]]` };
    case "wait":
      return { k, n, id, at: 1_700_000_100_000 };
    case "hook":
      return {
        k,
        n,
        id,
        token: `token-${n}`,
        metadata: null,
        webhook: false,
        system: false,
        force: false,
        retentionMs: 0,
        conflict: false,
      };
    default:
      return { k, n, id, changes: [{ key: "a", value: "b" }] };
  }
}
