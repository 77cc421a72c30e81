/**
 * Settings: what an operator may move, under the names that the spec gives ("Runtime settings").
 *
 * Owns names, defaults and clamps. A value that is not a number in range is refused at start-up
 * rather than read as something else.
 */
import { BatonError } from "./errors.ts";

export interface Settings {
  /** Orchestrator deliveries of one message before its run is failed. */
  readonly queueDeliveriesMax: number;
  /** Cold replays in place after a divergence, in one delivery; then the run is parked. */
  readonly divergenceRetriesMax: number;
  /** Steps that one orchestrator runs in place at a time; 0 sends every step to the queue. */
  readonly inlineStepsMax: number;
  /** How long one invocation may start work in place, ms. */
  readonly inlineWindowMs: number;
  /** No inline step starts so close to the end of the window, ms. */
  readonly inlineMarginMs: number;
  /** Poll of the log's tail while nothing is pushed, ms; 0 turns polls off. */
  readonly pollIntervalMs: number;
  /** Poll beside a live push, ms. */
  readonly feedPollIntervalMs: number;
  /** How long a delivery with nothing to run stays on the feed, ms; 0 turns it off. */
  readonly lingerMs: number;
  /** Deadline of one read of a log's tail, ms; 0 turns it off. */
  readonly readTimeoutMs: number;
  /** A background body may start while its start is in flight, on a plain first delivery. */
  readonly optimisticBackgroundStart: boolean;
  /** Outcomes of inline steps that the guest may have seen before they commit; 0: none. */
  readonly runAheadDepth: number;
  /** A run's first delivery begins without a load, its `run_started` in flight. */
  readonly turbo: boolean;
  /** Inline bodies may start while their start is in flight, where turbo or run-ahead allow it. */
  readonly optimisticInlineStart: boolean;
  /** Bytes of heaps that stay live between deliveries, over all tenants. */
  readonly liveHeapBytesMax: number;
  /** One resume in so many is compared with a cold replay; 0: none. */
  readonly replayCheckEvery: number;
  /** Neither heaps nor snapshots are kept between deliveries: every one replays from cold. */
  readonly isCold: boolean;
  /**
   * Where addresses of webhooks begin; `{tenant}` in it stands for the run's tenant. A run keeps
   * what was set when it began. Null: webhooks have a token and no address.
   */
  readonly webhookBaseUrl: string | null;
}

export const DEFAULT_SETTINGS: Settings = {
  queueDeliveriesMax: 48,
  divergenceRetriesMax: 3,
  inlineStepsMax: 3,
  inlineWindowMs: 600_000,
  inlineMarginMs: 60_000,
  pollIntervalMs: 2_000,
  feedPollIntervalMs: 10_000,
  lingerMs: 30_000,
  readTimeoutMs: 5_000,
  optimisticBackgroundStart: false,
  runAheadDepth: 10,
  turbo: true,
  optimisticInlineStart: true,
  liveHeapBytesMax: 512 * 1024 * 1024,
  replayCheckEvery: 500,
  isCold: false,
  webhookBaseUrl: null,
};

/** `WORKFLOW_MAX_INLINE_STEPS` is clamped to this. */
const INLINE_STEPS_CLAMP = 16;
/** `WORKFLOW_RUN_AHEAD_DEPTH` is clamped to this. */
const RUN_AHEAD_CLAMP = 16;

type Environment = Readonly<Record<string, string | undefined>>;

/** The settings that an environment asks for, over the defaults. */
export function settingsOf(environment: Environment): Settings {
  const number = (name: string, otherwise: number) => integerOf(environment, name, otherwise);
  const base = DEFAULT_SETTINGS;
  const optimistic = flagOf(environment, "WORKFLOW_OPTIMISTIC_BACKGROUND_START");
  const isInlineForbidden = isOff(environment, "WORKFLOW_OPTIMISTIC_INLINE_START");
  return {
    queueDeliveriesMax: number("WORKFLOW_MAX_QUEUE_DELIVERIES", base.queueDeliveriesMax),
    divergenceRetriesMax: number(
      "WORKFLOW_REPLAY_DIVERGENCE_MAX_RETRIES",
      base.divergenceRetriesMax,
    ),
    inlineStepsMax: Math.min(
      number("WORKFLOW_MAX_INLINE_STEPS", base.inlineStepsMax),
      INLINE_STEPS_CLAMP,
    ),
    inlineWindowMs: number("WORKFLOW_V2_TIMEOUT_MS", base.inlineWindowMs),
    inlineMarginMs: number("WORKFLOW_INLINE_STEP_DEADLINE_MARGIN_MS", base.inlineMarginMs),
    pollIntervalMs: number("WORKFLOW_ORCHESTRATOR_POLL_INTERVAL_MS", base.pollIntervalMs),
    feedPollIntervalMs: number(
      "WORKFLOW_ORCHESTRATOR_FEED_POLL_INTERVAL_MS",
      base.feedPollIntervalMs,
    ),
    lingerMs: number("WORKFLOW_ORCHESTRATOR_LINGER_MS", base.lingerMs),
    readTimeoutMs: number("WORKFLOW_ORCHESTRATOR_READ_TIMEOUT_MS", base.readTimeoutMs),
    // An explicit "no" to early starts in place wins over the opt-in.
    optimisticBackgroundStart: optimistic && !isInlineForbidden,
    runAheadDepth: Math.min(
      number("WORKFLOW_RUN_AHEAD_DEPTH", base.runAheadDepth),
      RUN_AHEAD_CLAMP,
    ),
    turbo: !isOff(environment, "WORKFLOW_TURBO"),
    optimisticInlineStart: !isInlineForbidden,
    liveHeapBytesMax: number("BATON_LIVE_HEAP_BYTES", base.liveHeapBytesMax),
    replayCheckEvery: number("BATON_REPLAY_CHECK_EVERY", base.replayCheckEvery),
    isCold: flagOf(environment, "BATON_COLD"),
    webhookBaseUrl: baseUrlOf(environment, "BATON_WEBHOOK_BASE_URL"),
  };
}

function integerOf(environment: Environment, name: string, otherwise: number): number {
  const text = environment[name]?.trim();
  if (text === undefined || text === "") return otherwise;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new BatonError("INVALID_ARGUMENT", `${name} must be a whole number from 0`, {
    field: name,
    used: text.slice(0, 80),
    allowed: "a whole number from 0",
  });
}

/** Whether what is on by default is turned off. */
function isOff(environment: Environment, name: string): boolean {
  const text = environment[name]?.trim();
  return text === "0" || text === "false";
}

/** Without the slash at its end. */
function baseUrlOf(environment: Environment, name: string): string | null {
  const text = environment[name]?.trim();
  if (text === undefined || text === "" || text === "none") return null;
  if (URL.canParse(text) && /^https?:/.test(text)) return text.replace(/\/+$/, "");
  throw new BatonError("INVALID_ARGUMENT", `${name} must be the beginning of an address`, {
    field: name,
    used: text.slice(0, 80),
    allowed: "a URL of http or https, in which {tenant} stands for the run's tenant",
  });
}

function flagOf(environment: Environment, name: string): boolean {
  const text = environment[name]?.trim();
  return text === "1" || text === "true";
}
