/**
 * The step side of the guest library, as one script: installs what a step's body may use in a heap
 * of its own, and returns the function through which the host drives it (step-protocol.ts).
 */
import type { StepCommand } from "../step-protocol.ts";
import { callerIn } from "./caller.ts";
import { registeredIn } from "./classes.ts";
import { createClock, installClock } from "./clock.ts";
import { createConsole, installConsole } from "./console.ts";
import type { Dispatch } from "./dispatch.ts";
import type { Guest } from "./guest.ts";
import { Farewells } from "./farewells.ts";
import { installSmallGlobals, lockDown } from "./lockdown.ts";
import { Operations } from "./operations.ts";
import {
  ErrorConstructor,
  MapConstructor,
  SymbolFor,
  arrayJoin,
  define,
  defineFixed,
  jsonOf,
  jsonParse,
  list,
  mapForEach,
  mapGet,
  numberText,
  promiseThen,
  push,
} from "./primordials.ts";
import { createRandom, installRandom } from "./random.ts";
import type { Kind, Realm } from "./realm.ts";
import { lineText } from "./report.ts";
import { stepFunctions } from "./step/functions.ts";
import { StepBody } from "./step/body.ts";
import { registerBuiltins } from "./step/builtin-bodies.ts";
import { installEnvironment } from "./step/environment.ts";
import type { Attempt, ContextStore } from "./step/body.ts";
import { StepSignals } from "./step/abort.ts";
import { apiCallOf, stepExports } from "./step/exports.ts";
import { installDigest } from "./step/digest.ts";
import { createFetch } from "./step/fetch.ts";
import { HostCalls } from "./step/host-calls.ts";
import { StepStreams } from "./step/streams.ts";
import { installTimers } from "./step/timers.ts";
import { workflowFunctionKind } from "./steps.ts";
import { GuestDOMException } from "./web/dom-exception.ts";
import { installWebTypes } from "./web/install.ts";
import { WEB_KINDS } from "./web/web-kinds.ts";

const BUNDLE_FILE = "steps.js";

type HostCall = (
  name: "clock_read" | "random_read" | "env_read" | "called_early" | "clock_set",
  value: string,
) => unknown;

export function boot(hostCall: HostCall): Dispatch {
  const scope = globalThis;
  delete (scope as Record<string, unknown>)["__baton_guest"];
  lockDown(scope);
  const settled = Promise.resolve();
  installSmallGlobals(scope, (job) => void promiseThen(settled, () => job()));

  const kinds = list<Kind>();
  const classes = new MapConstructor<string, object>();
  const registered = new MapConstructor<string, unknown>();
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
    operations: new Operations(() => undefined),
    console: createConsole(),
    realm,
    watched: new MapConstructor(),
    farewells: new Farewells(),
    run: null,
  };
  const calls = new HostCalls(realm, (kind) => {
    hostCall("called_early", `${kind} ${callerIn(BUNDLE_FILE)}`);
  });
  const store: ContextStore = { closureVars: {} };
  const signals = new StepSignals(guest, calls);
  const heap = new StepHeap({
    guest,
    calls,
    signals,
    body: new StepBody({ guest, registered, store, signals }),
    registered,
    grant: installEnvironment(scope, () => void hostCall("env_read", callerIn(BUNDLE_FILE))),
  });
  installRuntime(scope, heap);
  const streams = new StepStreams(guest, calls);
  const report = (error: unknown): void =>
    guest.console.write("error", ["a callback threw", error]);
  streams.install(scope);
  installTimers(scope, calls, report);
  signals.install(scope, (fire, ms) => setTimeout(fire, ms));
  installWebTypes(scope, streams.bodyTools(), report);
  const fetch = createFetch(calls);
  define(scope, "fetch", fetch, false);
  for (const kind of [
    stepFunctions(registered, store),
    workflowFunctionKind(new MapConstructor()),
    ...streams.kinds,
    ...signals.kinds,
    ...WEB_KINDS,
  ]) {
    push(kinds, kind);
  }
  defineFixed(scope, SymbolFor("workflow-class-registry"), classes);
  defineFixed(scope, SymbolFor("@workflow/core//registeredSteps"), registered);
  defineFixed(scope, SymbolFor("WORKFLOW_STEP_CONTEXT_STORAGE"), { getStore: () => store });
  const library = { guest, calls, streams, classes, fetch, attempt: () => heap.attempt };
  defineFixed(scope, SymbolFor("baton.guest"), stepExports(library));
  registerBuiltins(registered, { fetch, call: apiCallOf(library) });
  return (commandJson, payloadText) =>
    heap.obey(jsonParse(commandJson) as StepCommand, payloadText ?? "-1");
}

function installRuntime(scope: object, { guest }: StepHeap): void {
  installClock(scope, guest.clock);
  installRandom(scope, guest.random);
  installConsole(scope, guest.console);
  installDigest(crypto);
}

interface StepHeapParts {
  readonly guest: Guest;
  readonly calls: HostCalls;
  readonly signals: StepSignals;
  readonly body: StepBody;
  readonly registered: Map<string, unknown>;
  /** Shows the body its environment. */
  readonly grant: (env: Readonly<Record<string, string>>) => void;
}

/** The commands of the host, obeyed. */
class StepHeap {
  readonly guest: Guest;
  readonly signals: StepSignals;
  readonly #calls: HostCalls;
  readonly #body: StepBody;
  readonly #registered: Map<string, unknown>;
  readonly #grant: StepHeapParts["grant"];
  #attempt: Attempt | null = null;

  constructor({ guest, calls, signals, body, registered, grant }: StepHeapParts) {
    this.guest = guest;
    this.signals = signals;
    this.#calls = calls;
    this.#body = body;
    this.#registered = registered;
    this.#grant = grant;
  }

  get attempt(): Attempt {
    if (this.#attempt !== null) return this.#attempt;
    throw new ErrorConstructor("there is no step yet: this works only in a step's body");
  }

  obey(command: StepCommand, payloadText: string): string {
    if (command.t === "init") this.#begin(command);
    else if (this.#attempt !== null) this.guest.clock.moveTo(command.now);
    switch (command.t) {
      case "init":
        return "";
      case "run":
        void this.#body.run(this.attempt, payloadText);
        return "";
      case "settle":
        this.#calls.settle(command.n, command.ok, payloadText);
        return "";
      case "abort": {
        const reason = new GuestDOMException("The step was aborted", "AbortError");
        this.signals.tripAll(reason);
        this.#calls.cancelAll(reason);
        return "";
      }
      case "report":
        return this.#report();
      case "registered":
        return this.#registeredText();
      default:
        return command satisfies never;
    }
  }

  #begin(command: Extract<StepCommand, { t: "init" }>): void {
    this.#attempt = command;
    this.guest.run = {
      runId: command.runId,
      workflowName: command.workflowName,
      createdAt: command.runStartedAt,
      payloadBytesMax: command.payloadBytesMax,
      baseUrl: null,
    };
    this.guest.clock.start(command.now);
    this.guest.random.seed(command.seed);
    this.guest.console.limit(command.consoleBytesPerPassMax);
    this.#calls.start(command.callsOpenMax);
    this.#grant(command.env);
  }

  #report(): string {
    const { asked, cancelled } = this.#calls.takeNew();
    // Whoever sees the step done finds what it wrote.
    const done = this.#calls.isLanding ? null : this.#body.done;
    const lines = list<string>();
    const taken = this.guest.console.takeLines();
    for (let i = 0; i < taken.length; i++) push(lines, lineText(taken[i]!));
    const doneText =
      done === null
        ? "null"
        : `{"ok":${done.ok},"text":${jsonOf(done.text)},"isFatal":${done.isFatal}` +
          `,"retryAt":${jsonOf(done.retryAt)}}`;
    return (
      `{"calls":[${arrayJoin(asked, ",")}],"cancelled":[${arrayJoin(cancelled, ",")}]` +
      `,"done":${doneText},"console":[${arrayJoin(lines, ",")}]}`
    );
  }

  #registeredText(): string {
    const steps = list<string>();
    mapForEach(this.#registered, (body, id) => {
      const wanted = (body as { maxRetries?: unknown }).maxRetries;
      const isCount = typeof wanted === "number" && wanted >= 0 && wanted % 1 === 0;
      push(steps, `{"id":${jsonOf(id)},"maxRetries":${jsonOf(isCount ? wanted : null)}}`);
    });
    return `{"steps":[${arrayJoin(steps, ",")}]}`;
  }
}
