/**
 * One engine in one simulated process, as the simulator and its clients use it.
 */
import type { RunRef, TenantId } from "../../engine/ids.ts";
import type { EngineParts } from "../../engine/parts.ts";
import type { Payload } from "../../engine/payload.ts";
import type { ChunkPage } from "../../engine/ports/access.ts";
import type { QueueHandlers } from "../../engine/ports/queue.ts";

export interface StartRequest {
  readonly tenantId: TenantId;
  readonly workflowName: string;
  readonly deploymentId: string;
  readonly input: Payload;
  readonly idempotencyKey: string;
}

export interface ResumeRequest {
  readonly tenantId: TenantId;
  readonly token: string;
  readonly payload: Payload;
  readonly resumeId: string;
}

export interface EngineApi {
  readonly handlers: QueueHandlers;
  start(request: StartRequest): Promise<RunRef>;
  resumeHook(request: ResumeRequest): Promise<unknown>;
  cancel(run: RunRef): Promise<unknown>;
  wakeUp(run: RunRef): Promise<unknown>;
  /** The status of the answer. */
  resumeWebhook(to: { readonly tenantId: TenantId; readonly token: string }): Promise<number>;
  /** A page of the run's stream, from an index on, live. */
  readStream(run: RunRef, index: number): Promise<ChunkPage>;
  /** Calls back once a run that this process drove has ended. */
  onEnded(heard: (runId: string, outcome: string) => void): void;
}

export interface SimulatedEngine extends EngineApi {
  /** Resolves when its process has died. */
  readonly died: Promise<void>;
}

/** Makes an engine from its parts; what mutants change, they change in the parts. */
export type MakeEngine = (parts: EngineParts) => EngineApi;
