/** Projects on disk for tests of the bundler, and a stub of what a bundle finds in its heap. */
import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import vm from "node:vm";
import { buildBundle, type BuiltBundle } from "../../../tenants/bundles/build.ts";
import { parseManifest, type Manifest } from "../../../tenants/bundles/manifest.ts";

export type Files = Readonly<Record<string, string>>;

export function projectOf(files: Files): string {
  const root = mkdtempSync(join(realpathSync(tmpdir()), "baton-project-"));
  for (const [name, text] of Object.entries(files)) {
    const path = join(root, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  return root;
}

export function build(files: Files, entries: readonly string[] = ["src"]): Promise<BuiltBundle> {
  return buildBundle({
    projectRoot: projectOf(files),
    entries,
    guestLibrary: "guest",
  });
}

export const manifestOf = (bundle: BuiltBundle): Manifest => parseManifest(bundle.manifest);

/** Stands for the library that is in a heap. */
const LIBRARY = {
  declareSteps: () => undefined,
  workflow: {},
  api: {},
  errors: {},
  serde: {
    WORKFLOW_SERIALIZE: Symbol.for("workflow-serialize"),
    WORKFLOW_DESERIALIZE: Symbol.for("workflow-deserialize"),
  },
};

type Step = (...args: unknown[]) => unknown;

/** The two sides of a bundle, evaluated apart; a step call goes straight from one to the other. */
export interface LinkedBundle {
  readonly workflows: ReadonlyMap<string, (...args: unknown[]) => Promise<unknown>>;
  readonly steps: ReadonlyMap<string, Step>;
  readonly called: { id: string; closureVars: Record<string, unknown> | undefined }[];
}

/** Evaluates both sides. The step side must use no import. */
export function link(bundle: BuiltBundle): LinkedBundle {
  const called: LinkedBundle["called"] = [];
  let closureVars: Record<string, unknown> | undefined;
  const stepSide = vm.createContext({ console });
  const stepGlobal = vm.runInContext("globalThis", stepSide) as Record<symbol, unknown>;
  stepGlobal[Symbol.for("WORKFLOW_STEP_CONTEXT_STORAGE")] = { getStore: () => ({ closureVars }) };
  stepGlobal[Symbol.for("baton.guest")] = LIBRARY;
  vm.runInContext(bundle.stepCode, stepSide);
  const steps = (stepGlobal[Symbol.for("@workflow/core//registeredSteps")] ?? new Map()) as Map<
    string,
    Step
  >;
  const workflowSide = vm.createContext({ console });
  const global = vm.runInContext("globalThis", workflowSide) as Record<symbol | string, unknown>;
  global[Symbol.for("baton.guest")] = LIBRARY;
  const workflows = new Map<string, (...args: unknown[]) => Promise<unknown>>();
  global["__private_workflows"] = workflows;
  global[Symbol.for("WORKFLOW_USE_STEP")] = (id: string, thunk?: () => Record<string, unknown>) =>
    function (this: unknown, ...args: unknown[]) {
      const step = steps.get(id);
      if (step === undefined) throw new Error(`no step ${id}`);
      const outer = closureVars;
      closureVars = thunk?.();
      called.push({ id, closureVars });
      // Bodies read their variables before they first wait.
      const result = step.apply(this, args);
      closureVars = outer;
      return Promise.resolve(result);
    };
  vm.runInContext(bundle.workflowCode, workflowSide);
  return { workflows, steps, called };
}
