/**
 * Waiting inside a delivery: for bodies that run, for others' events while it lingers, for CPU.
 *
 * Owns when a delivery stays though it has nothing to do (spec: "Linger interaction"; design §9: on
 * hooks only while a burst is plausible).
 *
 * E55  Before a delivery waits, the timers it owns are out: it may end at any moment.
 */
import { armOwned } from "./arming.ts";
import type { DeliveryState, Ending } from "./delivery-state.ts";
import { isPastDeadline, marginStartMs, nowMs } from "./delivery-state.ts";
import { CPU_WAIT_IN_PLACE_MS_MAX } from "./limits.ts";
import { nextDueMs } from "./waits.ts";

/** Waits until a body ends, something lands in the log, a wait is due, or time is up. */
export async function awaitProgress(state: DeliveryState): Promise<void> {
  await armOwned(state);
  // Only hints come from the feed, so nothing waits for it to open.
  void state.feed.start(state.log.topSlot);
  if (state.feed.hasNews) return;
  const due = nextDueMs(state.log.waits.values());
  // Past the deadline nothing new begins in place; what runs is waited for, however long.
  const deadlineMs = isPastDeadline(state) ? null : state.deadlineMs;
  const untilMs =
    due === null || deadlineMs === null ? (due ?? deadlineMs) : Math.min(due, deadlineMs);
  await state.progress.wait(untilMs);
}

/**
 * Waits for the tenant's minute to have CPU left: here for a while, since its heap is live, or with
 * its message set aside. `null`: there may be other news by now.
 */
export async function awaitCpu(state: DeliveryState): Promise<"go on" | Ending | null> {
  const waitMs = state.engine.parts.tenants.cpuWaitMs(state.run.tenantId);
  if (waitMs === 0) return "go on";
  if (waitMs > CPU_WAIT_IN_PLACE_MS_MAX && state.bodies.count === 0) {
    const reason = "the tenant has used its CPU of the minute";
    return { kind: "deferred", reason, afterMs: waitMs, counted: false };
  }
  await armOwned(state);
  const untilMs = nowMs(state) + waitMs;
  await state.progress.wait(isPastDeadline(state) ? untilMs : Math.min(untilMs, state.deadlineMs));
  return null;
}

/** Stays on the live feed for a while; true if there is something to do again. */
export async function linger(state: DeliveryState): Promise<boolean> {
  const untilMs = lingerUntilMs(state);
  if (untilMs === null) return false;
  await armOwned(state);
  await state.feed.start(state.log.topSlot);
  const due = nextDueMs(state.log.waits.values());
  const wakeMs = due === null ? untilMs : Math.min(due, untilMs);
  while (!state.feed.hasNews) {
    if (!state.feed.isLive || isPastDeadline(state)) return false;
    if (nowMs(state) >= wakeMs) return due !== null && due <= nowMs(state);
    await state.progress.wait(wakeMs);
  }
  return true;
}

/** Until when it is worth to stay, epoch ms; null: not at all. */
function lingerUntilMs(state: DeliveryState): number | null {
  const { world, settings } = state.engine.parts;
  const now = nowMs(state);
  const untilMs = Math.min(now + settings.lingerMs, marginStartMs(state));
  if (!world.capabilities.liveFeed || untilMs <= now || isPastDeadline(state)) return null;
  for (const step of state.log.steps.values()) {
    if (step.outcome === null && step.mode === "background" && !waitsLong(step.retry, untilMs)) {
      return untilMs;
    }
  }
  for (const hook of state.log.hooks.values()) {
    const { receivedAt, closedSlot } = hook;
    if (closedSlot === null && receivedAt !== null && now - receivedAt < settings.lingerMs) {
      return untilMs;
    }
  }
  return null;
}

/** A step whose next attempt is not due within the window brings nothing in it. */
function waitsLong(retry: { readonly retryAt: number } | null, untilMs: number): boolean {
  return retry !== null && retry.retryAt >= untilMs;
}
