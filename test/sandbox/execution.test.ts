/** How the end of work in a heap is told apart: whose doing it was decides what becomes of its run. */
import { describe, expect, it } from "vitest";
import { cpuClockOf } from "../../sandbox/cpu-clock.ts";
import { Execution } from "../../sandbox/execution.ts";
import { HeapBroken } from "../../sandbox/imports.ts";
import { InstancePool } from "../../sandbox/heap.ts";
import { GuestThrow } from "../../sandbox/instance.ts";
import { compileModule } from "../../sandbox/wasm.ts";
import { LIMITS } from "./heaps.ts";

function execution(): Execution {
  const instance = new InstancePool(compileModule()).fresh(LIMITS.heapBytesMax);
  if (instance === null) throw new Error("no memory for a heap");
  return new Execution(instance, LIMITS, cpuClockOf(null));
}

const ended = (error: Error) =>
  execution().run(Infinity, () => {
    throw error;
  });

describe("work that ends in an exception", () => {
  it.each([
    ["a trap of the wasm", new WebAssembly.RuntimeError("unreachable")],
    ["a heap whose state is no heap's", new HeapBroken("a pointer leads out of the heap")],
  ])("%s is the run's own trap, not a heap that was lost with its thread", (_name, error) => {
    expect(ended(error)).toEqual({ kind: "lost", reason: error.message, isTrap: true });
  });

  it("an exception of the guest is the guest's", () => {
    expect(ended(new GuestThrow("its text"))).toEqual({ kind: "threw", text: "its text" });
  });

  it("an overflow of the host's stack is a limit", () => {
    expect(ended(new RangeError("Maximum call stack size exceeded"))).toMatchObject({
      kind: "limit",
      exceeded: { code: "STACK_LIMIT_EXCEEDED" },
    });
  });
});
