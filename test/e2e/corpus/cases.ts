/**
 * What each program of the corpus comes to under the Workflow SDK, and what the outside does to its
 * run meanwhile.
 */
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Baton, Run } from "../../../engine/compose.ts";

export interface Case {
  /** The program's file below `programs`. */
  readonly file: string;
  /** Absent: none. `token` is the run's own, in whichever Baton it runs. */
  readonly args?: (token: string) => readonly unknown[];
  /** What its run gives; for one that throws, what `thrown` makes of it. */
  readonly output: unknown;
  /** What the outside does while it runs; resolves to what is to be compared with `meanwhile`. */
  readonly outside?: (baton: Baton, run: Run, token: string) => Promise<unknown>;
  readonly meanwhile?: unknown;
}

export const CORPUS = import.meta.dirname;

/** Every program's workflow is called `main`, also where its file exports it as default. */
export function workflowIdOf({ file }: Case): string {
  return `workflow//./programs/${file.replace(/\.\w+$/, "")}//main`;
}

export function programFiles(): string[] {
  return readdirSync(join(CORPUS, "programs")).sort();
}

/** What a caller sees of a run that threw. */
export function thrown(error: unknown): unknown {
  const { code, cause } = error as { code: string; cause: Error & { cause?: Error } };
  return [code, cause.name, cause.message, cause.cause?.name, cause.cause?.message];
}

async function readAll(stream: ReadableStream<unknown>): Promise<unknown[]> {
  const chunks: unknown[] = [];
  for await (const chunk of stream as unknown as AsyncIterable<unknown>) chunks.push(chunk);
  return chunks;
}

const WAIT_MS = 30_000;

/** Answers the webhook whose token the run writes to its stream. */
function request(body: string): Required<Case>["outside"] {
  return async (baton, run) => {
    const [token] = await readAll(run.getReadable());
    const headers = { "x-from": "outside", "content-type": "application/json" };
    const response = await baton.resumeWebhook(
      String(token),
      new Request("https://host.example/hook", { method: "POST", body, headers }),
    );
    return [response.status, response.headers.get("x-kind"), await response.text()];
  };
}

const WHEN = new Date(Date.UTC(2024, 1, 29, 12));

const FORMS: readonly Case[] = [
  { file: "sequential-steps.ts", args: () => [3], output: "12 apples" },
  {
    file: "parallel-steps.ts",
    output: [[1, 4, 9, 16, 25], ["fulfilled", "rejected"], 81],
  },
  { file: "step-forms.js", output: [2, 11, 3, 6, 200] },
  { file: "object-members.ts", output: [100, 120] },
  { file: "nested-declaration.ts", args: () => [5], output: [5, 10, 15] },
  { file: "nested-arrow.ts", args: () => [["ada", "bob"]], output: ["hello ada!", "hello bob!"] },
  { file: "nested-object-method.ts", args: () => ["EUR"], output: ["5 EUR", "PAID in EUR"] },
  { file: "nested-in-loop.ts", output: [10, 20, 30] },
  { file: "factory-closures.ts", output: [30, 103, 100] },
  { file: "lexical-this.ts", output: "shop@example.com -> ada@example.com" },
  { file: "static-methods.ts", output: ["opened may", "closed may"] },
  { file: "instance-methods.ts", output: [true, "ada: 150", 100, "ada: 151"] },
  { file: "bound-steps.ts", output: [6, 3, 6, 26] },
  {
    file: "step-references.ts",
    output: [6, 42, 24, "step//./programs/step-references//multiply"],
  },
  { file: "closure-references.ts", args: () => ["<"], output: ["<a(x)", "<b(x)"] },
  { file: "unknown-step.ts", output: [true, "StepNotRegisteredError"] },
  { file: "default-export.ts", args: () => [1], output: 1001 },
  { file: "imported-steps.ts", args: () => [1000], output: [190, 19, "OK!", "ok"] },
  {
    file: "rendered-mail.tsx",
    args: () => ["ada"],
    output: '<!doctype mail><mail to="ada"><p>one</p><p>two</p></mail>',
  },
  { file: "generators.ts", output: [0, 1, 2, 3, 4, 5] },
  { file: "module-state.ts", output: [10, 1, [1, 1]] },
  { file: "many-steps.ts", output: 50 },
  { file: "fire-and-forget.ts", output: "exit" },
];

const VALUES: readonly Case[] = [
  {
    file: "class-roundtrip.ts",
    output: [true, "9007199254740994 EUR", ["9007199254740993 EUR", "1 EUR"]],
  },
  { file: "step-only-class.ts", output: ["Place", "berlin at 3/4", 5] },
  {
    file: "subclasses.ts",
    output: [
      [false, 2, 0],
      [true, 3, 9],
    ],
  },
  {
    file: "unregistered-class.ts",
    output: [true, true, { status: "fulfilled", value: "object" }],
  },
  { file: "unserializable-result.ts", output: [true, "fine"] },
  { file: "wire-primitives.ts", output: [true, true] },
  { file: "wire-binary.ts", output: [true, true, [true, 2, 7], 2] },
  {
    file: "wire-collections.ts",
    output: [
      [2, 1, true, "2024-02-29T00:00:00.000Z", true, true, false, 3, true, true],
      Date.UTC(2024, 1, 29),
      "giu",
      ["0", "2"],
      true,
      true,
    ],
  },
  {
    file: "wire-web.ts",
    output: [
      ["shop.example:8443", "1", 0, "t1", 2],
      "https://shop.example:8443/there",
      "a=1&a=2&more=3",
      "a, b",
      [201, "Made", true, "text/plain", "POST /in: hé\0llo"],
    ],
  },
  {
    file: "wire-errors.ts",
    output: [
      [
        "Error: plain",
        "RangeError: range",
        "SyntaxError: syntax",
        "ReferenceError: reference",
        "EvalError: eval",
        "URIError: uri",
        "AggregateError: several",
        "AbortError: gone",
        "FatalError: fatal",
        "RetryableError: later",
        "PaymentError: coded",
      ],
      [true, true, true, true],
      [true, 7],
      ["one", "two"],
      1_700_000_000_000,
      "card_declined",
      ["Error/true", "RangeError/true", "SyntaxError/true"],
      "string",
    ],
  },
  {
    file: "wire-functions.ts",
    output: [42, "workflow//./programs/wire-functions//child", true, 43],
  },
  { file: "wire-streams.ts", output: "ONE;TWO;THREE;" },
  {
    file: "thrown-values.ts",
    output: [
      ["FatalError", true, "just text", undefined],
      ["FatalError", true, { code: 42, at: new Date(0) }, undefined],
      ["FatalError", false, undefined, "limit"],
    ],
  },
  {
    file: "workflow-throws.ts",
    args: () => ["a-1"],
    output: ["RUN_FAILED", "OutOfStock", "out of stock: a-1", "RangeError", "0 left"],
  },
  {
    file: "rich-output.ts",
    args: () => [
      {
        when: WHEN,
        tags: new Set(["new"]),
        rates: new Map([["EUR", 2n ** 70n]]),
        bytes: new Uint8Array([1, 2]),
      },
    ],
    output: {
      when: WHEN,
      tags: new Set(["new", "seen"]),
      rates: new Map([["EUR", 2n ** 70n]]),
      bytes: new Uint8Array([1, 2]),
      pattern: /x/g,
      missing: undefined,
    },
  },
  { file: "large-values.ts", output: [200_000, 700_000] },
];

const TIME_AND_FAILURE: readonly Case[] = [
  { file: "sleeping.ts", output: [true, ["TypeError", "TypeError", "TypeError"]] },
  { file: "concurrent-sleeps.ts", output: [["early", "middle", "late"], "step"] },
  { file: "deterministic-values.ts", output: [true, true, true, true] },
  {
    file: "globals.ts",
    output: [
      [true, true, true, true],
      "text",
      "é",
      0,
      "https://a.example/x?q=1",
      0xba,
      "time passed",
    ],
  },
  {
    file: "workflow-metadata.ts",
    output: [
      "workflow//./programs/workflow-metadata//main",
      true,
      [
        "step//./programs/workflow-metadata//inStep",
        true,
        1,
        true,
        "workflow//./programs/workflow-metadata//main",
      ],
      true,
      true,
      "boolean",
    ],
  },
  {
    file: "fatal-error.ts",
    output: [true, true, "FatalError", "invalid on attempt 1", "why"],
  },
  {
    file: "retryable-error.ts",
    output: [
      [3, true],
      [3, true],
      [3, true],
    ],
  },
  {
    file: "max-retries.ts",
    output: [
      [true, "RetryableError", "attempt 3", true],
      [true, "Error", "attempt 1", true],
      [true, "RetryableError", "attempt 4", true],
    ],
  },
  {
    file: "compensation.ts",
    output: ["no rooms", ["cancelled car-1", "cancelled flight-1"]],
  },
  {
    file: "fetch-step.ts",
    output: [
      [true, true],
      [true, true],
    ],
  },
];

const OUTSIDE: readonly Case[] = [
  {
    file: "hook-payload.ts",
    args: (token) => [token],
    output: [true, true, true],
    outside: async (baton, run, token) => {
      const payload = { approved: true, at: WHEN };
      const { runId } = await baton.resumeHook(token, payload, { waitMs: WAIT_MS });
      return runId === run.runId;
    },
    meanwhile: true,
  },
  {
    file: "hook-iteration.ts",
    args: (token) => [token],
    output: ["noted a", "noted b"],
    outside: async (baton, _run, token) => {
      for (const text of ["a", "b", "stop"]) {
        await baton.resumeHook(token, text, { waitMs: WAIT_MS });
      }
    },
  },
  {
    file: "hook-conflict.ts",
    args: (token) => [token],
    output: [null, [true, true], "done"],
  },
  {
    file: "hook-metadata.ts",
    args: (token) => [token],
    output: [true, 9, [true, "HookNotFoundError"]],
  },
  { file: "defined-hook.ts", args: (token) => [token], output: { stars: 4 } },
  { file: "hook-or-timeout.ts", args: (token) => [token], output: [null, null] },
  {
    file: "webhook-default.ts",
    output: ["POST", "outside", { n: 1 }, true],
    outside: request('{"n":1}'),
    meanwhile: [202, null, ""],
  },
  {
    file: "webhook-static.ts",
    output: '"hi"',
    outside: request('"hi"'),
    meanwhile: [201, "static", "thank you"],
  },
  {
    file: "webhook-manual.ts",
    output: "ada",
    outside: request('{"name":"ada"}'),
    meanwhile: [203, null, '{"greeting":"hello ada"}'],
  },
  {
    file: "attributes.ts",
    output: 3,
    outside: async (_baton, run) => {
      await run.returnValue();
      return (await run.row()).attributes;
    },
    meanwhile: { phase: "two", step: "from the step" },
  },
  {
    file: "writable-stream.ts",
    output: undefined,
    outside: async (_baton, run) => [
      await readAll(run.getReadable()),
      await readAll(run.getReadable({ namespace: "log" })),
    ],
    meanwhile: [["first", { n: 2n }, new Uint8Array([3])], ["done"]],
  },
  {
    file: "child-workflow.ts",
    output: [
      8,
      0,
      [8, true, "completed"],
      10,
      8,
      "workflow//./programs/child-workflow//child",
      true,
    ],
  },
  {
    file: "child-failure.ts",
    output: [true, "USER_ERROR", true, "too far", { limit: 3 }, "failed"],
  },
  { file: "child-cancelled.ts", output: [true, "cancelled"] },
  { file: "child-woken.ts", output: [1, "awake"] },
  { file: "child-attributes.ts", output: ["leaf a", "leaf b"] },
  {
    file: "abort-by-workflow.ts",
    output: ["quick", true, "stopped: no longer needed"],
  },
  { file: "abort-by-step.ts", output: ["heard", true, [true, "stopped by a step"]] },
  { file: "abort-throws.ts", output: ["AbortError", true] },
];

export const CASES: readonly Case[] = [...FORMS, ...VALUES, ...TIME_AND_FAILURE, ...OUTSIDE];
