/**
 * The sandbox as one simulated process sees it: heaps are real, and may be lost at any pass. What a
 * process had open is closed when it dies.
 */
import type { Heap, HeapRequest, OpenResult, Sandbox } from "../../engine/ports/sandbox.ts";
import type { Faults } from "./faults.ts";
import type { Journal } from "./journal.ts";

export interface SimulatedSandboxOptions {
  readonly owner: string;
  readonly faults: Faults;
  readonly journal: Journal;
}

/** The wrapped sandbox, and what closes all heaps that are open through it. */
export function simulatedSandbox(
  sandbox: Sandbox,
  { owner, faults, journal }: SimulatedSandboxOptions,
): { readonly sandbox: Sandbox; closeHeaps(): void } {
  const open = new Set<Heap>();
  const isLost = (site: string) => {
    journal.count(site);
    if (faults.draw({ site, owner, args: [] }) === null) return false;
    journal.note(owner, `heap lost at ${site}`);
    return true;
  };
  const lost = { kind: "lost", reason: "simulated" } as const;
  const wrapped = (heap: Heap): Heap => ({
    get consumedSlot() {
      return heap.consumedSlot;
    },
    pass: async (events) => {
      if (!isLost("sandbox.pass")) return heap.pass(events);
      heap.close();
      open.delete(heap);
      return lost;
    },
    snapshot: (position) => heap.snapshot(position),
    close: () => {
      heap.close();
      open.delete(heap);
    },
  });
  return {
    sandbox: {
      inspect: (bundle, limits) => sandbox.inspect(bundle, limits),
      open: async (request: HeapRequest): Promise<OpenResult> => {
        if (isLost("sandbox.open")) return lost;
        const result = await sandbox.open(request);
        if (result.kind !== "opened") return result;
        open.add(result.heap);
        return { kind: "opened", heap: wrapped(result.heap) };
      },
      close: () => Promise.resolve(),
    },
    closeHeaps: () => {
      for (const heap of open) heap.close();
      open.clear();
    },
  };
}
