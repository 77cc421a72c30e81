import { StepNotRegisteredError } from "workflow/errors";

type UseStep = (id: string) => () => Promise<unknown>;

export async function main(): Promise<unknown> {
  "use workflow";
  const scope = globalThis as unknown as Record<symbol, UseStep>;
  const useStep: UseStep | undefined = scope[Symbol.for("WORKFLOW_USE_STEP")];
  try {
    return await useStep?.("step//./programs/unknown-step//missing")();
  } catch (error) {
    return [StepNotRegisteredError.is(error), (error as Error).name];
  }
}
