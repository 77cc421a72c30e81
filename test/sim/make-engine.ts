/** The engine as it ships, behind the few calls that simulated clients make. */
import type { EndedRun } from "../../engine/lifecycle.ts";
import { userStreamOf } from "../../engine/readable.ts";
import { createEngine } from "../../engine/runtime.ts";
import type { MakeEngine } from "./simulated-engine.ts";

export const makeEngine: MakeEngine = (parts) => {
  const engine = createEngine(parts);
  return {
    handlers: engine.handlers,
    start: async (request) => (await engine.start(request)).run,
    resumeHook: (request) => engine.resumeHook(request),
    cancel: (run) => engine.getRun(run.tenantId, run.runId).cancel("the client says so"),
    wakeUp: (run) => engine.getRun(run.tenantId, run.runId).wakeUp(),
    resumeWebhook: async (to) =>
      (await engine.resumeWebhook(to, new Request("http://sim/hook", { method: "POST" }))).status,
    readStream: (run, index) => engine.streamsOf(run.tenantId).read(userStreamOf(run), index),
    onEnded: (heard) => {
      const tell = ({ run, outcome }: EndedRun) => heard(run.runId, outcome.kind);
      engine.registerLifecycleHooks({ onRunCompleted: tell, onRunFailed: tell });
    },
  };
};
