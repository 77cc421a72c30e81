/**
 * Run as a process of its own: closes what is idle, or has just answered, and waits for it. Prints
 * `closed`; ends without it if nothing holds the process until then.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { bundleHashOf, tenantIdOf } from "../../engine/ids.ts";
import { GuestThread } from "../../sandbox/guest-thread.ts";
import { createSandbox } from "../../sandbox/index.ts";
import { compileModule } from "../../sandbox/wasm.ts";
import { ATTACK_LIMITS } from "../hostile/run-attack.ts";
import { tenantSource } from "./tenant-source.ts";

/** An answer that is on its way when its thread is killed. */
async function lateAnswer(): Promise<void> {
  const thread = new GuestThread(compileModule(), {
    busy: () => undefined,
    answered: () => undefined,
    died: () => undefined,
  });
  const closing = { kind: "close", heapId: 1, isReusable: false } as const;
  await thread.order(closing);
  void thread.order(closing);
  await new Promise<void>((resolve) => {
    process.nextTick(resolve);
  });
  // The thread answers while this one cannot hear it.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  await thread.kill("the test is over");
}

async function idleHost(): Promise<void> {
  const sandbox = createSandbox({ form: "process" });
  const library = createRequire(import.meta.url).resolve("#built/guest/workflow.js");
  const code = {
    tenantId: tenantIdOf("tenant"),
    hash: bundleHashOf("a".repeat(64)),
    workflowCode: tenantSource("return 1;"),
    guestLibrary: readFileSync(library, "utf8"),
  };
  await sandbox.inspect(code, ATTACK_LIMITS);
  await sandbox.close();
}

await (process.argv[2] === "idle host" ? idleHost() : lateAnswer());
process.stdout.write("closed");
