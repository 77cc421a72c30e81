/**
 * What one attempt of a step may do besides computing (ports/access.ts), carried out.
 *
 * Owns what an attempt has on its way to streams, and the events of its attributes. Every path of it
 * stays in the attempt's own tenant: runs of other tenants are not found.
 */
import { BatonError } from "./errors.ts";
import type { RunRef } from "./ids.ts";
import {
  ATTRIBUTE_CHANGES_BYTES_MAX,
  ATTRIBUTE_CHANGES_MAX,
  ATTRIBUTE_KEY_CHARS_MAX,
  ATTRIBUTE_VALUE_BYTES_MAX,
} from "./limits.ts";
import type { Engine } from "./parts.ts";
import { PlatformCalls } from "./platform-calls.ts";
import { newEvent } from "./plan.ts";
import type { AttributeChange, StepAccess, StepStreams } from "./ports/access.ts";
import type { StepAttempt } from "./ports/steps.ts";
import { Progress } from "./progress.ts";

/** `runStart`: what the run's log and streams are to be given waits for it, and fails with it. */
export function accessOf(
  engine: Engine,
  attempt: Omit<StepAttempt, "access">,
  runStart: Promise<void> | null = null,
): StepAccess {
  const { parts } = engine;
  const behindStart = <T>(work: () => Promise<T>) =>
    runStart === null ? work() : runStart.then(work);
  const streams = engine.memory.streams.forTenant(attempt.run.tenantId);
  const calls = new PlatformCalls(engine, attempt);
  const writes = new Writes(engine);
  return {
    streams: {
      write: (place, chunks) => writes.track(behindStart(() => streams.write(place, chunks))),
      close: (place) => writes.track(behindStart(() => streams.close(place))),
      read: (place, index, signal) => streams.read(place, index, signal),
    } satisfies StepStreams,
    setAttributes: (changes) => behindStart(() => setAttributes(engine, attempt, changes)),
    call: (op, args) => calls.call(op, args),
    track: (work) => {
      const { runId } = attempt.run;
      const logged = work.catch((error: unknown) => {
        const { stepName } = attempt;
        parts.log.warn({ runId, stepName, error: String(error) }, "what a step left behind failed");
      });
      void writes.track(logged.then(() => undefined));
    },
    flushed: (waitMsMax) => writes.flushed(waitMsMax),
  };
}

/** Out-of-band: a step's attributes are a report, no decision, and resume nothing. */
async function setAttributes(
  { parts }: Engine,
  { run, stepId, attempt }: { run: RunRef } & Pick<StepAttempt, "stepId" | "attempt">,
  changes: readonly AttributeChange[],
): Promise<void> {
  if (changes.length === 0) return;
  checkChanges(changes);
  const writer = { kind: "step", stepId, attempt } as const;
  const event = newEvent("attr_set", null, { changes: [...changes], writer });
  await parts.world.forTenant(run.tenantId).events.create(run.runId, event);
}

/** As in workflows; whoever runs the body may be a tenant's. */
function checkChanges(changes: readonly AttributeChange[]): void {
  const text = new TextEncoder();
  let bytes = 0;
  for (const { key, value } of changes) {
    const valueBytes = value === null ? 0 : text.encode(value).length;
    checkAtMost("an attribute's key, characters", key.length, ATTRIBUTE_KEY_CHARS_MAX);
    checkAtMost("an attribute's value, bytes", valueBytes, ATTRIBUTE_VALUE_BYTES_MAX);
    bytes += text.encode(key).length + valueBytes;
  }
  checkAtMost("attributes set at once", changes.length, ATTRIBUTE_CHANGES_MAX);
  checkAtMost("bytes of attributes set at once", bytes, ATTRIBUTE_CHANGES_BYTES_MAX);
}

function checkAtMost(field: string, used: number, allowed: number): void {
  if (used <= allowed) return;
  throw new BatonError("INVALID_ARGUMENT", "attributes are short", { field, used, allowed });
}

/** What a body has begun to write and what has not landed yet. */
class Writes {
  readonly #engine: Engine;
  readonly #pending = new Set<Promise<void>>();

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  async track(write: Promise<void>): Promise<void> {
    const { flushing } = this.#engine.memory;
    const landed = write.then(
      () => undefined,
      () => undefined,
    );
    this.#pending.add(landed);
    flushing.add(landed);
    void landed.then(() => {
      this.#pending.delete(landed);
      flushing.delete(landed);
    });
    return write;
  }

  async flushed(waitMsMax: number): Promise<"idle" | "landed" | "late"> {
    if (this.#pending.size === 0) return "idle";
    const { clock } = this.#engine.parts;
    const untilMs = clock.now() + waitMsMax;
    const progress = new Progress(clock);
    while (this.#pending.size > 0 && clock.now() < untilMs) {
      void Promise.all(this.#pending).then(() => progress.notify());
      await progress.wait(untilMs);
    }
    return this.#pending.size === 0 ? "landed" : "late";
  }
}
