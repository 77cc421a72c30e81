/** The workflow function of a heap's run: found, called once, and watched until it settles. */
import { decode } from "./decode.ts";
import { WorkflowNotRegisteredError } from "./errors.ts";
import { runOf, textOfThrown, textOfValue } from "./guest.ts";
import type { Guest } from "./guest.ts";
import { TypeErrorConstructor, apply, isArray, jsonOf, mapGet } from "./primordials.ts";
import type { Done } from "./report.ts";

export interface WorkflowRun {
  /** Starts the function with the arguments that devalue text holds; later calls do nothing. */
  begin(argsText: string): void;
  hasBegun(): boolean;
  done(): Done | null;
}

export function createWorkflowRun(guest: Guest, registered: Map<string, unknown>): WorkflowRun {
  let begun = false;
  let done: Done | null = null;

  function fail(error: unknown, code: string): void {
    done = { ok: false, text: textOfThrown(guest, error), code };
  }

  async function call(workflow: (...args: unknown[]) => unknown, argsText: string): Promise<void> {
    try {
      const args = decode(argsText, guest.realm);
      if (!isArray(args))
        throw new TypeErrorConstructor("a workflow's input is a list of arguments");
      const output = await (apply(workflow, undefined, args) as Promise<unknown>);
      done = { ok: true, text: textOfValue(guest, output, "workflow return value"), code: null };
    } catch (error) {
      fail(error, "USER_ERROR");
    }
  }

  return {
    begin(argsText) {
      if (begun) return;
      begun = true;
      const { workflowName } = runOf(guest);
      const workflow = mapGet(registered, workflowName);
      if (typeof workflow !== "function") {
        const message = `the bundle has no workflow ${jsonOf(workflowName)}`;
        fail(new WorkflowNotRegisteredError(message), "RUNTIME_ERROR");
        return;
      }
      void call(workflow as (...args: unknown[]) => unknown, argsText);
    },
    hasBegun: () => begun,
    done: () => done,
  };
}
