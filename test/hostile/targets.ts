/** The sandbox as it ships, and its weakened builds. Shipped code knows nothing of either. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { HeapLimits } from "../../engine/ports/sandbox.ts";
import { createSandbox } from "../../sandbox/index.ts";
import type { Weakening } from "./attack.ts";
import { ATTACK_LIMITS } from "./run-attack.ts";
import type { Target } from "./run-attack.ts";
import { withExposedLibrary } from "./weakened/library.ts";
import { NAIVE_LIBRARY } from "./weakened/naive-library.ts";
import { lateBoundLibrary, stockGlobalsLibrary } from "./weakened/rebuilt.ts";
import { vmSandbox } from "./weakened/vm-sandbox.ts";

export const shippedLibrary: string = readFileSync(
  createRequire(import.meta.url).resolve("#built/guest/workflow.js"),
  "utf8",
);

/** Where nothing is limited but what wasm itself and a control's patience set. */
const LIFTED: HeapLimits = {
  heapBytesMax: 128 << 20,
  cpuSoftMs: 8000,
  cpuHardMs: 10_000,
  stackBytesMax: 5 << 20,
  jobsPerEventMax: 100_000_000,
  openOperationsMax: 1_000_000,
  payloadBytesMax: 64 << 20,
  consoleBytesPerPassMax: 64 << 20,
};

/** How far away the far watchdog is: well past what the shipped limits and their grace allow. */
const FAR_MS = 600;

export function shippedTarget(): Target {
  return {
    sandbox: createSandbox({ form: "threads" }),
    library: shippedLibrary,
    limits: ATTACK_LIMITS,
  };
}

/** On the calling thread, for attempts that no watchdog has to end. */
export function shippedTargetHere(): Target {
  const sandbox = createSandbox({ form: "calling-thread" });
  return { sandbox, library: shippedLibrary, limits: ATTACK_LIMITS };
}

const built: { lateBound?: Promise<string>; stockGlobals?: Promise<string> } = {};

export async function weakenedTarget(weakening: Weakening): Promise<Target> {
  const here = shippedTargetHere;
  switch (weakening) {
    case "stock_globals":
      return { ...here(), library: await (built.stockGlobals ??= stockGlobalsLibrary()) };
    case "exposed_library":
      return { ...here(), library: withExposedLibrary(shippedLibrary) };
    case "late_bound":
      return { ...here(), library: await (built.lateBound ??= lateBoundLibrary()) };
    case "host_realm":
    case "trusting_border":
      return { ...here(), sandbox: vmSandbox({ shared: false }), library: NAIVE_LIBRARY };
    case "shared_heap":
      return { ...here(), sandbox: vmSandbox({ shared: true }), library: NAIVE_LIBRARY };
    case "lifted_limits":
      return { ...shippedTarget(), limits: LIFTED, ignoresAttackLimits: true };
    case "far_watchdog":
      return {
        ...shippedTarget(),
        limits: { ...LIFTED, cpuSoftMs: FAR_MS, cpuHardMs: FAR_MS },
        triesMax: 1,
        ignoresAttackLimits: true,
      };
    default:
      return weakening satisfies never;
  }
}
