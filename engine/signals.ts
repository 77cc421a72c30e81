/**
 * Signals: an AbortSignal that left its workflow, and everyone who has to hear that it was aborted.
 *
 * A signal lives in the run that made it, under one name there. The steps that hold it read a stream
 * of that name, which gets one chunk, the reason, and is closed. Workflows that hold it have a system
 * hook each: that of the run that made it is known by the signal's token; other runs to which the
 * signal was passed write theirs into a second stream.
 *
 * E95  Who aborts a signal tells the steps that hold it first, then other runs, then the workflow
 *      that made it: a crash in between leaves nothing that only that workflow knows.
 * E96  Who begins to follow a signal is told of its abort, whichever of the two was first: the
 *      follower is written down before it looks, and the abort before the followers are read.
 */
import { isBatonError } from "./errors.ts";
import { fieldOf, textOf } from "./given.ts";
import { runIdOf } from "./ids.ts";
import type { TenantId } from "./ids.ts";
import { resumeSystemHook } from "./intake.ts";
import { SIGNAL_FOLLOWERS_PAGE } from "./limits.ts";
import type { Engine } from "./parts.ts";
import type { StreamPlace } from "./ports/access.ts";
import { PLAIN_REALM } from "./ports/steps.ts";

/** What is asked of signals in the name of one tenant. Arguments are the tenant's. */
export class SignalCalls {
  readonly #engine: Engine;
  readonly #tenantId: TenantId;

  constructor(engine: Engine, tenantId: TenantId) {
    this.#engine = engine;
    this.#tenantId = tenantId;
  }

  /** Tells all who hold the signal. Who comes second adds nothing, and completes what was cut short. */
  async abort(signal: unknown): Promise<undefined> {
    const place = placeOf(signal);
    const token = textOf(fieldOf(signal, "hookToken"), "a signal's token");
    const reason = fieldOf(signal, "reason");
    await this.#tellSteps(place, reason);
    for (const follower of await this.#followersOf(place)) await this.#tellRun(follower, reason);
    await this.#tellRun(token, reason);
  }

  /** `{reason}` if the signal was aborted already; else null, and the hook will be told. */
  async follow(signal: unknown, token: string): Promise<{ readonly reason: unknown } | null> {
    const { codec } = this.#engine.parts;
    const place = placeOf(signal);
    const chunk = codec.encode(token, "a hook's token", PLAIN_REALM);
    await this.#streams.write(followersPlace(place), [chunk]);
    const [reason] = await this.#chunksOf(place, 0);
    return reason === undefined ? null : { reason: codec.decode(reason, PLAIN_REALM) };
  }

  get #streams() {
    return this.#engine.memory.streams.forTenant(this.#tenantId);
  }

  /** One chunk, the reason; then the stream is closed. */
  async #tellSteps(place: StreamPlace, reason: unknown): Promise<void> {
    const chunk = this.#engine.parts.codec.encode(reason, "a signal's reason", PLAIN_REALM);
    try {
      await this.#streams.write(place, [chunk]);
      await this.#streams.close(place);
    } catch (error) {
      if (!isBatonError(error, "ENTITY_CONFLICT")) throw error;
    }
  }

  async #followersOf(place: StreamPlace): Promise<ReadonlySet<string>> {
    const followers = new Set<string>();
    for (let index = 0; ; index += SIGNAL_FOLLOWERS_PAGE) {
      const chunks = await this.#chunksOf(followersPlace(place), index);
      for (const chunk of chunks) {
        const token = this.#engine.parts.codec.decode(chunk, PLAIN_REALM);
        if (typeof token === "string") followers.add(token);
      }
      if (chunks.length < SIGNAL_FOLLOWERS_PAGE) return followers;
    }
  }

  async #chunksOf({ runId, name }: StreamPlace, startIndex: number) {
    const { streams } = this.#engine.parts.world.forTenant(this.#tenantId);
    const page = { startIndex, limit: SIGNAL_FOLLOWERS_PAGE };
    return (await streams.getChunks(runId, name, page)).chunks;
  }

  /** A hook that is gone belongs to a run that is over, or that knows already. */
  async #tellRun(token: string, reason: unknown): Promise<void> {
    const { parts } = this.#engine;
    const payload = parts.codec.encode({ reason }, "a signal's reason", PLAIN_REALM);
    try {
      await resumeSystemHook(parts, { tenantId: this.#tenantId, token, payload });
    } catch (error) {
      if (!isBatonError(error, "HOOK_NOT_FOUND")) throw error;
    }
  }
}

function placeOf(signal: unknown): StreamPlace {
  return {
    runId: runIdOf(textOf(fieldOf(signal, "runId"), "a signal's run")),
    name: textOf(fieldOf(signal, "streamName"), "a signal's name"),
  };
}

function followersPlace({ runId, name }: StreamPlace): StreamPlace {
  return { runId, name: `${name}_followers` };
}
