/**
 * Limits that no setting moves: each named with its unit last, and why it is what it is.
 *
 * What operators may move stands in settings.ts; what a tenant may use is the tenants' part.
 */

import type { HeapLimits } from "./ports/sandbox.ts";

const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
const KIB = 1_024;

/** One write of creations; a fan-out of 64 is one batch, and a World's own cap lies above. */
export const CREATION_BATCH_EVENTS_MAX = 64;
/** Payload bytes of one write of creations, each event's allowance included. */
export const CREATION_BATCH_BYTES_MAX = 512 * KIB;
/** What an event weighs in a batch besides its payload. */
export const BATCH_EVENT_ALLOWANCE_BYTES = KIB;

/** A larger input is not carried on the step's message; its delivery reads the creation event. */
export const STEP_MESSAGE_INPUT_BYTES_MAX = 128 * KIB;
/** Step messages of one queue request; more go out in requests side by side. */
export const STEP_SENDS_PER_REQUEST_MAX = 16;

/** A World deduplicates a step's key for 24 hours; an hour of that is left for clocks that differ. */
export const STEP_RESEND_AGE_MS_MAX = 23 * HOUR;
/** Past the delivery cap, a step without activity for so long is failed. */
export const STEP_STALL_MS = HOUR;
/** How often one step's attempts may be cut short uncounted; after that it is the step's doing. */
export const STEP_INTERRUPTIONS_MAX = 16;
/** A message whose step nothing here can run comes again after so long, then later, uncounted. */
export const STEP_DEFERRAL_MS = 5 * SECOND;
/** A step that waited so long for a process that can run it is an operator's business. */
export const STEP_UNREGISTERED_ALARM_MS = HOUR;
/** How often a running background body's run is looked at, so that a cancellation reaches it. */
export const STEP_RUN_WATCH_MS = 2 * SECOND;
/** The looks at a running body's run back off to this. */
export const STEP_RUN_WATCH_MS_MAX = 10 * SECOND;

/** One queue delay is at most 23 hours: inside any World's retention of a day. */
export const WAIT_HOP_MS = 82_800 * SECOND;

/** How long the same message waits after the fence refused its delivery. */
export const FENCE_REDELIVERY_MS = SECOND;
/** The default pause before a step's next attempt. */
export const RETRY_BACKOFF_MS = SECOND;
/** A message of a parked run or of a suspended tenant comes again after so long, uncounted. */
export const SET_ASIDE_REDELIVERY_MS = 60 * SECOND;

/** Events that cross to a guest thread in one call; a cold replay takes several. */
export const EVENTS_PER_PASS_MAX = 1_000;
/** Passes in a row that commit nothing because the World refused; then the message comes again. */
export const REFUSED_PASSES_MAX = 3;
/** Heaps in a row that one delivery may lose before it asks for a redelivery. */
export const LOST_HEAPS_MAX = 3;
/** A run that breaks a fresh heap at the same log a second time breaks every one. */
export const TRAPS_MAX = 1;
/** Past the delivery cap: so many more deliveries may try to fail the run; then it is parked. */
export const REFUSED_FAILURES_MAX = 3;
/** A longer log is not replayed only to compare: the check would cost more than it tells. */
export const REPLAY_CHECK_EVENTS_MAX = 10_000;
/** A payload may be large, and the first page of a log is read before anything is known of it. */
export const FIRST_PAGE_EVENTS = 64;
/** As many as a World gives in one page. */
export const PAGE_EVENTS_MAX = 1_000;
/** Pages aim at this many bytes of payloads: what a delivery holds of a long log at a time. */
export const PAGE_BYTES_MAX = 4 * KIB * KIB;
/** Later events may be larger than those seen, so pages grow by steps. */
export const PAGE_GROWTH_MAX = 8;
/** Tries of one tail read; each waits twice as long as the one before. */
export const READ_ATTEMPTS_MAX = 3;

/** Writes that run ahead go out in groups of so many events; a World's report is as small. */
export const RUN_AHEAD_GROUP_EVENTS_MAX = 16;
/** Steps that one stretch of run-ahead creates before it lets its writes commit. */
export const RUN_AHEAD_STEPS_MAX = 64;
/** Events since the newest image after which a roll-back would cost more than another image. */
export const RUN_AHEAD_IMAGE_EVENTS = 128;
/** Clocks of Worlds and workers may differ by so much. */
export const CLOCK_SKEW_MS = 30 * SECOND;

/** Runs whose consumed position a process remembers. */
export const CONSUMED_POSITIONS_MAX = 10_000;
/** Invocations of which a process remembers that they ran the re-send pass. */
export const RESEND_PASSES_MAX = 10_000;

/** Empty polls of a World without a push back off to this. */
export const POLL_BACKOFF_MS_MAX = 10 * SECOND;
/** A push without an event or a heartbeat for so long is taken for dead; Worlds beat every 5 s. */
export const FEED_SILENCE_MS = 15 * SECOND;
/** Clean polls beside a live push back off to this many times their interval. */
export const FEED_POLL_BACKOFF_FACTOR_MAX = 2;

/** A tenant's passes wait so long for CPU where they are; beyond it their message comes again. */
export const CPU_WAIT_IN_PLACE_MS_MAX = 5 * SECOND;

/** Of a tenant's bytes of snapshots, how much is kept when some have to go. */
export const SNAPSHOTS_KEPT_FRACTION = 0.9;
/** Tenants whose bytes of snapshots a process remembers. */
export const SNAPSHOT_SHELVES_MAX = 10_000;

/** Below so many events since the last snapshot, a replay is cheaper than a snapshot. */
export const SNAPSHOT_EVENTS_MIN = 8;

/** Events that one look for a run's outcome reads at a time, from the end of its log. */
export const OUTCOME_PAGE_EVENTS = 200;
/** Runs of a tenant that one step of its recovery sends for. */
export const RECOVERIES_PER_SEND = 500;

/** How often a caller that awaits a run's outcome looks, where nothing is pushed. */
export const OUTCOME_POLL_MS = 500;
/** Those looks back off to this. */
export const OUTCOME_POLL_MS_MAX = 5 * SECOND;

/** How soon a reader that waits for a chunk looks again, where no hint of this process comes. */
export const STREAM_POLL_MS = 100;
/** Those looks back off to this. */
export const STREAM_POLL_MS_MAX = 2 * SECOND;
/** A stream that nobody closed is read as ended so long after its run's end. */
export const STREAM_TAIL_AFTER_END_MS = 5 * SECOND;
/** How long a process relies on the sizes of a run's streams that it has read. */
export const STREAM_SIZES_AGE_MS_MAX = 10 * SECOND;
/** Runs whose sizes a process remembers. */
export const STREAM_SIZES_MAX = 1_000;
/** How long bodies may go on once the process stops; then those that may run again are cut short. */
export const STOP_GRACE_MS = 5 * SECOND;
/** How long the outcome of a body waits for what it wrote to streams. */
export const STREAM_FLUSH_MS = 2 * SECOND;

/** Followers of a signal that one read gives. */
export const SIGNAL_FOLLOWERS_PAGE = 100;

/** What one write of attributes may hold, in steps as in workflows. */
export const ATTRIBUTE_KEY_CHARS_MAX = 256;
export const ATTRIBUTE_VALUE_BYTES_MAX = 256;
export const ATTRIBUTE_CHANGES_MAX = 64;
export const ATTRIBUTE_CHANGES_BYTES_MAX = 8 * KIB;

/** How often a payload follows a token that was taken by force to its new owner. */
export const FORCE_CLAIM_REDIRECTS_MAX = 3;

/** How long one attempt of the library's own step waits for another run's end. */
export const RUN_WAIT_MS = 5 * SECOND;
/** The looks of a run that waits for another are so much of the time waited, at most so far apart. */
export const RUN_WAIT_FRACTION = 20;
export const RUN_WAIT_MS_MAX = 600 * SECOND;

/**
 * What the limits of a heap may be set to, `[min, max]` each: outside of it the sandbox cannot keep
 * them. Below 6 MiB no heap comes to life; above 128 MiB none is made.
 */
export const HEAP_LIMIT_RANGES: {
  readonly [Name in keyof HeapLimits]: readonly [min: number, max: number];
} = {
  heapBytesMax: [6 * KIB * KIB, 128 * KIB * KIB],
  cpuSoftMs: [1, HOUR],
  cpuHardMs: [1, HOUR],
  stackBytesMax: [32 * KIB, 512 * KIB],
  jobsPerEventMax: [1, 100_000_000],
  openOperationsMax: [1, 20_000],
  payloadBytesMax: [1, 32 * KIB * KIB],
  consoleBytesPerPassMax: [0, KIB * KIB],
};
