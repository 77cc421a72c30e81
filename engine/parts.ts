/**
 * What one engine is made of, and what one process remembers between deliveries.
 *
 * Nothing in `ProcessMemory` is truth: all of it may be lost at any time and only costs time.
 */
import type { ConsumedPositions } from "./consumed-position.ts";
import type { Endings } from "./endings.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { LiveHeaps } from "./live-heaps.ts";
import type { Clock, Log, Random } from "./ports/host.ts";
import type { Sandbox } from "./ports/sandbox.ts";
import type { HostCodec, StepRunner } from "./ports/steps.ts";
import type { Tenants } from "./ports/tenants.ts";
import type { World } from "./ports/world.ts";
import type { RecentKeys } from "./recent-keys.ts";
import type { RunStreams } from "./run-streams.ts";
import type { Settings } from "./settings.ts";
import type { SnapshotShelf } from "./snapshot-shelf.ts";
import type { TenantDeliveryCounts } from "./tenant-deliveries.ts";
import type { Stopping } from "./progress.ts";

export interface EngineParts {
  readonly world: World;
  readonly sandbox: Sandbox;
  readonly tenants: Tenants;
  readonly steps: StepRunner;
  /** Reads and writes what steps pass to the platform and get from it. */
  readonly codec: HostCodec;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly settings: Settings;
}

export interface ProcessMemory {
  readonly liveHeaps: LiveHeaps;
  readonly positions: ConsumedPositions;
  /** Invocations that ran the re-send pass. */
  readonly resendPasses: RecentKeys;
  /** Callers that wait for a run to end. */
  readonly endings: Endings;
  readonly lifecycle: Lifecycle;
  readonly streams: RunStreams;
  /** Writes to streams that are on their way. */
  readonly flushing: Set<Promise<void>>;
  readonly stopping: Stopping;
  /** Turned off for good where the World stored a write under another time than it was given. */
  readonly runAhead: { isOff: boolean };
  readonly snapshotShelf: SnapshotShelf;
  readonly deliveries: TenantDeliveryCounts;
}

export interface Engine {
  readonly parts: EngineParts;
  readonly memory: ProcessMemory;
}
