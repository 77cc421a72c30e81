/**
 * Bodies of simulated steps that reach outside: streams, signals, attributes. Each does it through
 * the access that its attempt was given, as real bodies do.
 */
import { parse, stringify } from "devalue";
import { payloadOfText, textOfPayload } from "../../engine/payload.ts";
import type { StreamPlace } from "../../engine/ports/access.ts";
import type { Clock } from "../../engine/ports/host.ts";
import type { StepAttempt } from "../../engine/ports/steps.ts";
import type { BodyRecord } from "./observation.ts";
import type { Plan } from "./workflows/steps.ts";

export interface Doing {
  readonly attempt: StepAttempt;
  readonly body: BodyRecord;
  readonly plan: Plan;
  /** The data of the stream or signal that its last argument names. */
  readonly given: Readonly<Record<string, unknown>>;
  readonly serial: number;
  readonly clock: Clock;
  readonly mention: (token: string) => void;
}

/** What the body gives; `isFlushing`: it writes on behind its outcome. */
export interface Done {
  readonly value: unknown;
  readonly isFlushing?: true;
}

/** The handle of a stream, in a result. */
class StreamName {
  readonly data: StreamPlace & { readonly startIndex: number };
  constructor(place: StreamPlace) {
    this.data = { ...place, startIndex: 0 };
  }
}

const HANDLES = ["AbortSignal", "AbortController", "WritableStream", "ReadableStream"];

/** A step's arguments, with handles as their data. */
export function argumentsIn(attempt: StepAttempt): readonly unknown[] {
  const revivers = Object.fromEntries(HANDLES.map((tag) => [tag, (data: unknown) => data]));
  return (parse(textOfPayload(attempt.input), revivers) as { args: unknown[] }).args;
}

export function resultText(value: unknown): string {
  return stringify(value, {
    ReadableStream: (each: unknown) => each instanceof StreamName && each.data,
  });
}

export const OUTSIDE_BODIES: Readonly<Record<string, (doing: Doing) => Promise<Done>>> = {
  listen: async ({ attempt, given }) => {
    if (given["aborted"] === true) return { value: `told ${String(given["reason"])}` };
    const place = { runId: given["runId"], name: given["streamName"] } as StreamPlace;
    const [chunk] = (await attempt.access.streams.read(place, 0, attempt.signal)).chunks;
    return { value: chunk === undefined ? "not told" : `told ${textOfChunk(chunk)}` };
  },
  abortIt: async ({ attempt, given, body }) => {
    await attempt.access.call("abort", [{ ...given, reason: body.label }]);
    return { value: "aborted" };
  },
  scribe: async (doing) => {
    const { plan, given } = doing;
    const count = plan.chunks ?? 0;
    for (let i = 0; i < count; i++) {
      if (i === count - 1 && plan.flushMs !== undefined) {
        doing.attempt.access.track(afterMs(doing, plan.flushMs).then(() => write(doing, i, true)));
        return { value: "wrote", isFlushing: true };
      }
      await write(doing, i, false);
    }
    // The stream stays open for others; its run's end ends it.
    return { value: `wrote to ${String(given["name"] !== undefined)}` };
  },
  emit: async ({ attempt, plan, serial }) => {
    const { streams } = attempt.access;
    const name = `strm_${attempt.run.runId.slice("wrun_".length)}_emitted_${serial}`;
    const place = { runId: attempt.run.runId, name };
    for (let i = 0; i < (plan.chunks ?? 0); i++) await streams.write(place, [chunkOf(`${i}`)]);
    await streams.close(place);
    return { value: new StreamName(place) };
  },
  read: async ({ attempt, given }) => {
    const place = { runId: given["runId"], name: given["name"] } as StreamPlace;
    const texts: string[] = [];
    for (;;) {
      const page = await attempt.access.streams.read(place, texts.length, attempt.signal);
      texts.push(...page.chunks.map(textOfChunk));
      if (page.done) return { value: texts.join(",") };
    }
  },
  tag: async ({ attempt, body }) => {
    await attempt.access.setAttributes([
      { key: body.label, value: "on" },
      { key: "stage", value: body.label },
    ]);
    return { value: "tagged" };
  },
  mention: ({ attempt, mention }) => {
    mention(String(argumentsIn(attempt)[3]));
    return Promise.resolve({ value: "told" });
  },
};

async function write(doing: Doing, index: number, isLate: boolean): Promise<void> {
  const { attempt, body, given, serial } = doing;
  const place = { runId: given["runId"], name: given["name"] } as StreamPlace;
  const text = `${body.canary}/${body.label}#${serial}.${index}`;
  body.wrote.push({ name: place.name, text, isLate });
  await attempt.access.streams.write(place, [chunkOf(text)]);
}

function afterMs({ clock }: Doing, ms: number): Promise<void> {
  return new Promise((resolve) => void clock.setTimer(ms, resolve));
}

export function chunkOf(text: string): Uint8Array {
  return payloadOfText(stringify(text));
}

/** What a chunk holds, where that is a text; else only what kind of thing it is. */
export function textOfChunk(chunk: Uint8Array): string {
  const kinds = ["Response", "Headers", "ReadableStream"];
  const revivers = Object.fromEntries(kinds.map((tag) => [tag, () => tag]));
  return String(parse(textOfPayload(chunk), revivers));
}
