/**
 * The form for deterministic tests: heaps live on the calling thread, orders are carried out at
 * once. Soft limits hold as everywhere; nothing can stop a program that the engine never interrupts.
 */
import { cpuClockOf, ownThreadId } from "./cpu-clock.ts";
import type { Lodging, Place, Places } from "./place.ts";
import { Residence } from "./residence.ts";
import type { AnswerTo, HeapId, Order } from "./wire.ts";
import { compileModule } from "./wasm.ts";

export function callingThread(): Places {
  const clock = cpuClockOf(ownThreadId());
  const residence = new Residence(compileModule(), clock, { begins() {}, ends() {} });
  const place: Place = {
    async order<K extends Order["kind"]>(order: Extract<Order, { kind: K }>) {
      return residence.perform(order) as AnswerTo<K>;
    },
    supply(source) {
      residence.perform({ kind: "bundle", source });
    },
    forget() {},
  };
  let lastHeapId: HeapId = 0;
  return {
    async lodge(): Promise<Lodging> {
      lastHeapId++;
      return { place, heapId: lastHeapId, note() {}, release() {} };
    },
    async close() {
      clock.close();
    },
  };
}
