/** Needs `npm run build` first: the guest library and the threads are the built ones. */
import { BatonError } from "../../engine/errors.ts";
import { NO_ACCESS } from "../tenants/steps.ts";
import { afterEach, describe, expect, it, vi } from "vitest";
import type {
  EgressBody,
  EgressFailure,
  EgressPort,
  EgressRequest,
} from "../../engine/ports/egress.ts";
import { payloadOfText } from "../../engine/payload.ts";
import { HeldClock, attemptOf, failureOf, resultOf, rigOf, stepCode } from "./step-attempts.ts";
import type { Rig, RigOptions } from "./step-attempts.ts";

const open: Rig[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((rig) => rig.close()));
});

function bodies(of: Readonly<Record<string, string>>, options: RigOptions = {}): Rig {
  const rig = rigOf({ bundle: stepCode(of) }, options);
  open.push(rig);
  return rig;
}

describe("a sandboxed body", () => {
  it("is given its arguments, its context and timers, and gives its result", async () => {
    const { steps } = bodies({
      body: `await new Promise((resolve) => setTimeout(resolve, 3));
        const { attempt, stepName } = lib.workflow.getStepMetadata();
        return [args, attempt, stepName, lib.workflow.getWorkflowMetadata().workflowRunId];`,
    });
    const outcome = await steps.run(attemptOf("body", [1n, new Map([["a", 1]])], { attempt: 2 }));
    expect(resultOf(outcome)).toEqual([
      [1n, new Map([["a", 1]])],
      2,
      "body",
      "wrun_01HF7YAT00TEST00000000000A",
    ]);
  });

  it("tells how its failure is to be taken", async () => {
    const { steps } = bodies({
      plain: `throw new TypeError("bad", { cause: new RangeError("why") })`,
      fatal: `throw new lib.errors.FatalError("no")`,
      later: `throw new lib.errors.RetryableError("later", { retryAfter: new Date(99000) })`,
      aborted: `throw new DOMException("stop", "AbortError")`,
      wrong: `return () => 1`,
    });
    const failure = async (name: string) => failureOf(await steps.run(attemptOf(name)));
    expect(await failure("plain")).toMatchObject({
      isFatal: false,
      retryAt: null,
      error: { name: "TypeError", message: "bad", cause: { name: "RangeError" } },
    });
    expect(await failure("fatal")).toMatchObject({ isFatal: true });
    expect(await failure("later")).toMatchObject({ isFatal: false, retryAt: 99_000 });
    expect(await failure("aborted")).toMatchObject({ isFatal: true });
    expect(await failure("wrong")).toMatchObject({
      isFatal: true,
      error: {
        name: "SerializationError",
        message: expect.stringContaining("Failed to serialize step return value") as string,
      },
    });
  });

  it("whose last attempt fails is told of as exhausted, by guest error or by limit", async () => {
    const { steps } = bodies(
      { body: `throw new Error("last")`, loop: `for (;;);` },
      { limits: { heap: { cpuSoftMs: 30 } } },
    );
    const last = { attempt: 4, isLast: true };
    expect(failureOf(await steps.run(attemptOf("body", [], last))).error).toMatchObject({
      name: "FatalError",
      message: `Step "body" failed after 3 retries: last`,
    });
    const { error } = failureOf(await steps.run(attemptOf("loop", [], last)));
    expect(error).toMatchObject({
      name: "FatalError",
      message: expect.stringMatching(/^Step "loop" failed after 3 retries: CPU_LIMIT/) as string,
      cause: { name: "QuotaExceededError", code: "CPU_LIMIT_EXCEEDED" },
    });
  });

  it("leaves no state behind for the next attempt", async () => {
    const { steps } = bodies({
      body: `globalThis.count = (globalThis.count ?? 0) + 1; Array.prototype.mine = 1;
        registered.extra = (registered.extra ?? 0) + 1;
        return [globalThis.count, registered.extra];`,
    });
    for (let attempt = 1; attempt < 4; attempt++) {
      expect(resultOf(await steps.run(attemptOf("body", [], { attempt })))).toEqual([1, 1]);
    }
  });

  it("draws fresh entropy in each attempt", async () => {
    const { steps } = bodies({ body: `return [Math.random(), crypto.randomUUID()];` });
    const drawn = new Set<unknown>();
    for (let i = 0; i < 5; i++) {
      for (const value of resultOf(await steps.run(attemptOf("body"))) as unknown[]) {
        drawn.add(value);
      }
    }
    expect(drawn.size).toBe(10);
  });

  it.each([
    ["randomness", "crypto.randomUUID()"],
    ["the clock", "Date.now()"],
    ["its environment", "process.env.TOKEN"],
  ])("whose bundle reads %s at top level finds its own there", async (_, read) => {
    const clock = new HeldClock();
    let secret = 0;
    const rig = rigOf(
      { bundle: stepCode({ body: `return seen;` }, { before: `const seen = ${read};` }) },
      { clock, secretsOf: () => Promise.resolve({ TOKEN: `secret ${secret++}` }) },
    );
    open.push(rig);
    const first = resultOf(await rig.steps.run(attemptOf("body")));
    clock.advance(5000);
    const second = resultOf(await rig.steps.run(attemptOf("body")));
    expect(first).not.toBe(undefined);
    expect(second).not.toEqual(first);
  });

  it("has the retries that its function registered", async () => {
    const rig = rigOf({
      none: stepCode({ body: "" }),
      zero: stepCode({ body: "" }, { maxRetries: 0 }),
      wrong: stepCode({ body: "" }, { maxRetries: -1 }),
      broken: "throw new Error('top')",
    });
    open.push(rig);
    const { run } = attemptOf("body");
    const traits = async (id: string, name = "body") => rig.steps.traitsOf(run, id, name);
    expect(await traits("none")).toEqual({ maxRetries: 3 });
    expect(await traits("zero")).toEqual({ maxRetries: 0 });
    expect(await traits("wrong")).toEqual({ maxRetries: 3 });
    expect(await traits("broken")).toEqual({ maxRetries: 3 });
    expect(await traits("none", "other")).toBe(null);
    expect(await traits("no such bundle")).toBe(null);
    expect(await traits("none", "__builtin_response_json")).toEqual({ maxRetries: 3 });
  });

  it("of a bundle that cannot be loaded fails with what its top level threw", async () => {
    const rig = rigOf({ bundle: `null.x` });
    open.push(rig);
    expect(failureOf(await rig.steps.run(attemptOf("body"))).error.message).toMatch(/TypeError/);
  });

  it("whose input is no payload fails for good", async () => {
    const { steps } = bodies({ body: "return 1" });
    const input = new TextEncoder().encode("zstd....");
    expect(failureOf(await steps.run(attemptOf("body", [], { input })))).toMatchObject({
      isFatal: true,
    });
    const odd = payloadOfText("{]");
    expect(failureOf(await steps.run(attemptOf("body", [], { input: odd }))).error).toBeDefined();
  });

  it("that waits for nothing fails instead of waiting for ever", async () => {
    const { steps } = bodies({ body: `await new Promise(() => {})` });
    expect(failureOf(await steps.run(attemptOf("body"))).error.message).toMatch(/nothing will/);
  });

  it("prints to the log, bounded, under `guest`", async () => {
    const rig = bodies(
      { body: `console.warn("a", 1); console.log("x".repeat(50)); console.log("gone")` },
      { limits: { consoleBytesMax: 20 } },
    );
    resultOf(await rig.steps.run(attemptOf("body")));
    expect(rig.logged).toEqual([
      { level: "warn", text: "a 1" },
      { level: "log", text: `${"x".repeat(16)} [cut]` },
    ]);
  });

  it("reads granted secrets, which are redacted from what it prints and throws", async () => {
    const rig = bodies(
      { body: `console.log(process.env.TOKEN); throw new Error("with " + process.env.TOKEN)` },
      { secretsOf: () => Promise.resolve({ TOKEN: `hunter2"],[1` }) },
    );
    const { error } = failureOf(await rig.steps.run(attemptOf("body")));
    expect(error.message).toBe("with [redacted]");
    expect(rig.logged).toEqual([{ level: "log", text: "[redacted]" }]);
  });
});

describe("Node's modules in a sandboxed body", () => {
  it("may be imported; using one fails with module, file and line", async () => {
    const rig = rigOf(
      {
        bundle: stepCode(
          { use: `return fs.readFileSync("x")`, unused: `return typeof fs.readFileSync` },
          { before: `const fs = require("fs");` },
        ),
      },
      { nodeBuiltins: [{ module: "node:fs", file: "src/order.ts", line: 7 }] },
    );
    open.push(rig);
    expect(failureOf(await rig.steps.run(attemptOf("use"))).error.message).toMatch(
      /^readFileSync\(\) of node:fs, imported at src\/order\.ts:7: /,
    );
    expect(resultOf(await rig.steps.run(attemptOf("unused")))).toBe("function");
  });
});

describe("fetch", () => {
  const FETCH = `try { const r = await fetch(...args); return [r.status, await r.text()] }
    catch (e) { return [e.name, e.message] }`;

  it("without a policy is refused, in the body, by an error that says so", async () => {
    const { steps } = bodies({ body: FETCH });
    expect(resultOf(await steps.run(attemptOf("body", ["https://a.example"])))).toEqual([
      "EgressDeniedError",
      expect.stringContaining("no egress policy"),
    ]);
  });

  it("reaches the port with its run, and reads the answer's body piece by piece", async () => {
    const requests: EgressRequest[] = [];
    const { steps } = bodies({ body: FETCH }, { egress: answering(["ab", "c"], requests) });
    const attempt = attemptOf("body", ["https://a.example/", { method: "POST", body: "ä" }]);
    expect(resultOf(await steps.run(attempt))).toEqual([200, "abc"]);
    expect(requests[0]).toMatchObject({
      run: attempt.run,
      method: "POST",
      url: "https://a.example/",
      body: Buffer.from("ä"),
      responseBytesMax: 1000,
    });
  });

  it("fails where the body does, by the error of what went wrong", async () => {
    const over = { kind: "over", limit: "responseBytesMax", used: 1001, allowed: 1000 } as const;
    for (const [failure, name] of [
      [over, "QuotaExceededError"],
      [{ kind: "failed", reason: "it broke" }, "TypeError"],
    ] as const) {
      const { steps } = bodies({ body: FETCH }, { egress: answering(["ab", failure]) });
      const [told, message] = resultOf(
        await steps.run(attemptOf("body", ["https://a.example"])),
      ) as string[];
      expect(told).toBe(name);
      expect(message).toMatch(/1001 of 1000 \(responseBytesMax\)|fetch failed: it broke/);
    }
  });

  it("refused by the port is an error of its own", async () => {
    const egress: EgressPort = {
      fetch: () => Promise.resolve({ kind: "denied", reason: "not this host" }),
    };
    const { steps } = bodies({ body: FETCH }, { egress });
    expect(resultOf(await steps.run(attemptOf("body", ["https://a.example"])))).toEqual([
      "EgressDeniedError",
      "fetch is denied: not this host",
    ]);
  });

  it("sends a stream as it comes, and no more once the answer refused it", async () => {
    const sent: string[] = [];
    const egress: EgressPort = {
      fetch: async ({ body, url }) => {
        for await (const piece of body as AsyncIterable<Uint8Array>) {
          sent.push(Buffer.from(piece).toString());
        }
        return { ...ANSWER, url, body: null };
      },
    };
    const { steps } = bodies(
      {
        body: `const { readable, writable } = new TransformStream();
          const writer = writable.getWriter();
          const answer = fetch("https://a.example", { method: "POST", body: readable });
          for (const text of ["a", "b"]) await writer.write(new TextEncoder().encode(text));
          await writer.close();
          return (await answer).status;`,
      },
      { egress },
    );
    expect(resultOf(await steps.run(attemptOf("body")))).toBe(200);
    expect(sent).toEqual(["a", "b"]);
  });

  it.each([
    ["the body is cancelled", `await (await fetch(url)).body.cancel()`],
    [
      "its signal fires",
      `const stop = new AbortController();
       const r = await fetch(url, { signal: stop.signal });
       stop.abort();
       await r.text().catch(() => 0)`,
    ],
    ["the step ends without reading it", `await fetch(url)`],
  ])("lets go of the answer once %s", async (_, code) => {
    const closed: string[] = [];
    const { steps } = bodies(
      { body: `const url = "https://a.example"; ${code}; return 1` },
      { egress: answering(["ab"], [], () => closed.push("closed")) },
    );
    expect(resultOf(await steps.run(attemptOf("body")))).toBe(1);
    expect(closed).toEqual(["closed"]);
  });

  it("has a body that can be copied before it is read", async () => {
    const { steps } = bodies(
      {
        body: `const r = await fetch("https://a.example"); const copy = r.clone();
          return [await r.text(), await copy.text()];`,
      },
      { egress: answering(["ab", "c"]) },
    );
    expect(resultOf(await steps.run(attemptOf("body")))).toEqual(["abc", "abc"]);
  });
});

const ANSWER = {
  kind: "answered",
  status: 200,
  statusText: "",
  headers: [],
  url: "",
  redirected: false,
} as const;

/** A port whose answers have bodies of these pieces. */
function answering(
  pieces: readonly (string | EgressFailure)[],
  requests: EgressRequest[] = [],
  onClose: () => void = () => undefined,
): EgressPort {
  return {
    fetch: (request) => {
      requests.push(request);
      const left = [...pieces];
      const body: EgressBody = {
        read: () => {
          const piece = left.shift();
          if (piece === undefined) return Promise.resolve({ kind: "end" });
          if (typeof piece !== "string") return Promise.resolve(piece);
          return Promise.resolve({ kind: "bytes", bytes: Buffer.from(piece) });
        },
        close: onClose,
      };
      return Promise.resolve({ ...ANSWER, url: request.url, body });
    },
  };
}

describe("what a body asks of the platform", () => {
  const asked = (code: string) =>
    bodies({ body: `try { return await ${code} } catch (e) { return [e.name, e.code, e.stack] }` })
      .steps;

  it("and what is not offered is refused by a typed error that can be caught", async () => {
    const steps = asked(`lib.api.resumeWebhook("token", 1)`);
    const [name] = resultOf(await steps.run(attemptOf("body"))) as string[];
    expect(name).toBe("NotAvailableError");
  });

  it.each([
    [`lib.workflow.setAttributes({ a: "1" })`],
    [`lib.workflow.getWritable().getWriter().write("x")`],
    [`lib.api.start({ workflowId: "w" }, [])`],
  ])("%s fails with the code of the refusal, and without the host's stack", async (code) => {
    const refused = async (): Promise<never> => {
      throw new BatonError("QUOTA_EXCEEDED", "that is too much");
    };
    const streams = { write: refused, close: refused, read: refused };
    const access = { ...NO_ACCESS, streams, setAttributes: refused, call: refused };
    const outcome = await asked(code).run(attemptOf("body", [], { access }));
    expect(resultOf(outcome)).toEqual([
      "QuotaExceededError",
      "QUOTA_EXCEEDED",
      "QuotaExceededError: that is too much",
    ]);
  });

  it("what it wrote without waiting has landed before its outcome", async () => {
    const written: string[] = [];
    const write = async (_place: unknown, chunks: readonly Uint8Array[]): Promise<void> => {
      await Promise.resolve();
      written.push(...chunks.map((chunk) => new TextDecoder().decode(chunk)));
    };
    const access = { ...NO_ACCESS, streams: { ...NO_ACCESS.streams, write } };
    const { steps } = bodies({
      body: `const writer = lib.workflow.getWritable().getWriter();
        for (let i = 0; i < 3; i++) void writer.write(i);`,
    });
    await steps.run(attemptOf("body", [], { access }));
    expect(written).toEqual(["devl[0]", "devl[1]", "devl[2]"]);
  });
});

describe("the signal of an attempt", () => {
  it("ends its calls in the body; the attempt is interrupted", async () => {
    const stop = new AbortController();
    const clock = new HeldClock();
    const rig = bodies(
      {
        body: `try { await fetch("https://a.example") } catch (e) { console.log(e.name) }
          throw new Error("late")`,
      },
      {
        clock,
        egress: {
          fetch: (_, signal) =>
            new Promise((resolve) => {
              signal.addEventListener("abort", () => resolve({ kind: "failed", reason: "" }));
            }),
        },
      },
    );
    const outcome = rig.steps.run(attemptOf("body", [], { signal: stop.signal }));
    await vi.waitFor(() => expect(clock.timers).toBe(1));
    stop.abort(new Error("the run is over"));
    expect(await outcome).toEqual({ kind: "interrupted", reason: "the run is over" });
    expect(rig.logged).toEqual([{ level: "log", text: "AbortError" }]);
    expect(clock.timers).toBe(0);
  });

  it("gives the body a grace, then ends it", async () => {
    const stop = new AbortController();
    const clock = new HeldClock();
    const { steps } = bodies(
      { body: `setInterval(() => {}, 1e9); await new Promise(() => {})` },
      { clock },
    );
    const outcome = steps.run(attemptOf("body", [], { signal: stop.signal }));
    await vi.waitFor(() => expect(clock.timers).toBe(2));
    stop.abort(new Error("the run is over"));
    await vi.waitFor(() => expect(clock.timers).toBeGreaterThan(1));
    clock.advance(1000);
    expect(await outcome).toEqual({ kind: "interrupted", reason: "the run is over" });
  });
});
