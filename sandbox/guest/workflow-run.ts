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

  async function call(workflow: (...args: unknown[]) => unknown, argsText: string): Promise<void> {
    try {
      const args = decode(argsText, guest.realm);
      if (!isArray(args))
        throw new TypeErrorConstructor("a workflow's input is a list of arguments");
      const output = await (apply(workflow, undefined, args) as Promise<unknown>);
      const text = textOfValue(guest, output, "workflow return value");
      await guest.farewells.said();
      done = { ok: true, text, code: null };
    } catch (error) {
      const text = textOfThrown(guest, error);
      await guest.farewells.said();
      done = { ok: false, text, code: "USER_ERROR" };
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
        const text = textOfThrown(guest, new WorkflowNotRegisteredError(message));
        done = { ok: false, text, code: "RUNTIME_ERROR" };
        return;
      }
      void call(workflow as (...args: unknown[]) => unknown, argsText);
    },
    hasBegun: () => begun,
    done: () => done,
  };
}
