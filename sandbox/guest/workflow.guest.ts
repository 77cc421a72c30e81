/**
 * The workflow side of the guest library, as one script: `__baton_guest.boot(hostCall)` installs
 * it in a fresh heap and returns the function through which the host drives the heap.
 */
import type { HostCallName } from "../protocol.ts";
import { apiExports, serdeExports, workflowExports } from "./api.ts";
import type { ApiParts } from "./api.ts";
import { installDurableAbort } from "./durable-abort.ts";
import { createSetAttributes } from "./attributes.ts";
import { callerIn } from "./caller.ts";
import { registeredIn } from "./classes.ts";
import { createClock, installClock } from "./clock.ts";
import { createConsole, installConsole } from "./console.ts";
import { createDispatch } from "./dispatch.ts";
import { Farewells } from "./farewells.ts";
import type { Dispatch } from "./dispatch.ts";
import { errorExports } from "./errors.ts";
import type { Guest } from "./guest.ts";
import { workflowMetadata } from "./api.ts";
import { createCreateHook } from "./hooks.ts";
import { installSmallGlobals, lockDown, lockOutside } from "./lockdown.ts";
import { Operations } from "./operations.ts";
import {
  MapConstructor,
  SymbolFor,
  define,
  defineFixed,
  freeze,
  list,
  mapGet,
  numberText,
  promiseThen,
  push,
} from "./primordials.ts";
import { createRandom, installRandom } from "./random.ts";
import type { Kind, Realm } from "./realm.ts";
import { createRunHandles } from "./run-handle.ts";
import { Steps, workflowFunctionKind } from "./steps.ts";
import { installStreamHandles } from "./streams.ts";
import { createSleep } from "./waits.ts";
import { workflowBodies } from "./workflow-bodies.ts";
import { installWebTypes } from "./web/install.ts";
import { WEB_KINDS } from "./web/web-kinds.ts";
import { createCreateWebhook } from "./webhooks.ts";
import { registeredText } from "./report.ts";
import { createWorkflowRun } from "./workflow-run.ts";

const BUNDLE_FILE = "bundle.js";

type HostCall = (name: HostCallName, value: string) => unknown;

export function boot(hostCall: HostCall): Dispatch {
  const scope = globalThis;
  delete (scope as Record<string, unknown>)["__baton_guest"];
  lockDown(scope);
  lockOutside(scope);
  const settled = Promise.resolve();
  installSmallGlobals(scope, (job) => void promiseThen(settled, () => job()));

  const kinds = list<Kind>();
  const classes = new MapConstructor<string, object>();
  const workflows = new MapConstructor<string, unknown>();
  const realm: Realm = {
    kinds,
    registeredOf: (constructor) => registeredIn(classes, constructor),
    classOf: (classId) => mapGet(classes, classId),
    keepsUnknown: false,
  };
  const guest: Guest = {
    clock: createClock({
      readTooEarly: () => void hostCall("clock_read", callerIn(BUNDLE_FILE)),
      moved: (ms) => void hostCall("clock_set", numberText(ms)),
    }),
    random: createRandom(() => void hostCall("random_read", callerIn(BUNDLE_FILE))),
    operations: new Operations((what) => {
      hostCall("called_early", `${what} ${callerIn(BUNDLE_FILE)}`);
    }),
    console: createConsole(),
    realm,
    watched: new MapConstructor(),
    farewells: new Farewells(),
    run: null,
  };
  installClock(scope, guest.clock);
  installRandom(scope, guest.random);
  installConsole(scope, guest.console);

  const steps = new Steps(guest);
  const streams = installStreamHandles(scope, guest);
  push(kinds, steps);
  push(kinds, workflowFunctionKind(workflows));
  pushAll(kinds, streams.kinds);
  const sleep = createSleep(guest);
  pushAll(kinds, installDurableAbort(scope, { guest, steps, sleep }));
  installWebTypes(scope, workflowBodies(streams, steps), (error) =>
    guest.console.write("error", ["a listener threw", error]),
  );
  pushAll(kinds, WEB_KINDS);

  const runs = createRunHandles(steps, classes);
  const disposeSymbol = (Symbol as unknown as Record<string, symbol>)["dispose"]!;
  const parts: ApiParts = {
    guest,
    steps,
    sleep,
    createHook: createCreateHook(guest, disposeSymbol, runs.handleOf),
    createWebhook: createCreateWebhook(guest, disposeSymbol, runs.handleOf),
    setAttributes: createSetAttributes(guest),
    runs,
    getWritable: streams.getWritable,
    streamIdOf: streams.streamIdOf,
  };
  installLibrary(scope, parts, { classes, workflows });
  return createDispatch(guest, createWorkflowRun(guest, workflows), () =>
    registeredText(workflows, steps.names()),
  );
}

function pushAll<T>(to: T[], items: readonly T[]): void {
  for (let i = 0; i < items.length; i++) push(to, items[i]!);
}

interface Registries {
  readonly classes: Map<string, object>;
  readonly workflows: Map<string, unknown>;
}

/** What transformed bundles and the import shims look for on the global. */
function installLibrary(scope: object, parts: ApiParts, registries: Registries): void {
  const { steps } = parts;
  define(scope, "__private_workflows", registries.workflows, false);
  defineFixed(scope, SymbolFor("workflow-class-registry"), registries.classes);
  defineFixed(scope, SymbolFor("WORKFLOW_USE_STEP"), steps.useStep);
  defineFixed(scope, SymbolFor("WORKFLOW_SLEEP"), parts.sleep);
  defineFixed(scope, SymbolFor("WORKFLOW_CREATE_HOOK"), parts.createHook);
  defineFixed(scope, SymbolFor("WORKFLOW_SET_ATTRIBUTES"), parts.setAttributes);
  defineFixed(scope, SymbolFor("WORKFLOW_GET_STREAM_ID"), parts.streamIdOf);
  Object.defineProperty(scope, SymbolFor("WORKFLOW_CONTEXT"), {
    get: () => workflowMetadata(parts.guest),
    configurable: false,
  });
  defineFixed(
    scope,
    SymbolFor("baton.guest"),
    freeze({
      side: "workflow",
      workflow: workflowExports(parts),
      api: apiExports(parts),
      errors: freeze({ ...errorExports }),
      serde: serdeExports,
      declareSteps: (stepIds: readonly string[]) => {
        if (parts.guest.run === null) steps.declare(stepIds);
      },
    }),
  );
}
