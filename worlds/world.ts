/**
 * The contract of a World, in prose. The types are in `engine/ports/world.ts` and
 * `engine/ports/queue.ts`; the cases that attack each guarantee are in `worlds/conformance/`, in
 * the file that is named in brackets, in the groups whose names carry its number. A guarantee
 * without a case is not a guarantee, and `worlds/conformance/mutants.ts` breaks each to see that
 * some case notices.
 *
 * The log (fence, log, batch)
 *
 * W1   Digest. Each event is stored with the running digest of the log up to it; equal logs have
 *      equal digests in every World. [log]
 * W2   Fence first. An in-band write at another count than `seqInBand` is refused with 412 before
 *      anything else is looked at; without a count it is a 400. Either writes and allocates
 *      nothing. [fence]
 * W3   Counts. An in-band write moves `seq` and `seqInBand` by what it allocates, an out-of-band
 *      write `seq` alone; `run_created` counts as in-band. [fence]
 * W4   Dense slots. The log is slots 1 to `seq`; no refusal, race or crash leaves a hole. [log]
 * W5   Report. An in-band answer holds every event between `eventCount` and its own slot, or says
 *      `hasMore`. [log]
 * W6   Time. An in-band event, and the run's creation, is stored under its `occurredAt`, any other under the World's time.
 *      [fence]
 * W7   Terminal runs refuse what would start something new, and keep taking outcomes. [log]
 * W8   Status. A run's status follows its first terminal event, by slot. [log]
 * W9   Batches are ordered per entity and not atomic; what is no step or wait event, or over the
 *      caps, refuses the whole batch. [batch]
 * W10  Rows of steps, waits and hooks follow the log; nothing after an entity's end changes them.
 *      [rows]
 * W11  Listings are paged; no page size shows in what a reader gets in the end. [log, rows]
 * W12  Removal is whole. [rows]
 * W28  Both or neither. A write's message is stored with its event, in one step. [queue]
 * W29  A repeated `resumeId` converges on the first event, allocates nothing and sends nothing.
 *      [log]
 * W30  Hook tokens are unique per tenant: a taken one gives `hook_conflict`, the same hook again
 *      converges, force takes it and tells the victim, retention keeps it past the run. [hooks]
 *
 * Beside the log (cells)
 *
 * W13  Streams: dense indexes, closed for good. W14  Bundles never change. W15  Tenants' records
 *      are replaced by revision. [cells]
 * W16  The border refuses before anything is written, and names field, used and allowed. [border]
 * W31  Walls. Nothing of one tenant is seen, moved, woken or counted by another, through any
 *      method. [walls]
 *
 * The feed (feed)
 *
 * W17  In order, once, without a gap. W18  Ends once, alone. W19  Client feeds are capped; a
 *      heartbeat gives the top slot. [feed]
 *
 * The queue (gate, queue)
 *
 * W20  One orchestrator delivery per run; steps and intermediate timer hops are never held. [gate]
 * W21  Later messages are noted on the holder: the newest un-acked until it is covered, flagged
 *      ones and timers too; a re-run is told of the flags and timers that it covers. [gate]
 * W22  A re-run: `deliveryCount` + 1, the same `attempt` and `invocationStartedAt`; past 32, a
 *      handoff at the front. [gate]
 * W23  A holder that leaves without an ack covers nothing. [gate]
 * W24  Dedupe by key while the first message lives, wherever it lives. [queue]
 * W25  Delivery counts never go back; `attempt` leaves out what is nobody's failure. [queue]
 * W26  A message lives until it is acked; rejections back off, over hours. [queue]
 * W27  Tenants take turns. [queue]
 *
 * Durability (durable; Worlds that store)
 *
 * W32  What was answered is there after the process died, and nothing of what was refused.
 * W33  What a dead process held is due at once, counted; delays and keys are as they were.
 */
export type { World } from "../engine/ports/world.ts";
