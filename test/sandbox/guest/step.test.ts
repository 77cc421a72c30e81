import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { OpaqueValue, RUN_CLASS_ID, decodeText, encodeText } from "../../../sandbox/host-codec.ts";
import { Instance } from "../../../sandbox/instance.ts";
import type {
  RegisteredSteps,
  StepCall,
  StepCommand,
  StepReport,
} from "../../../sandbox/step-protocol.ts";
import { compileModule } from "../../../sandbox/wasm.ts";

const library = readFileSync(
  createRequire(import.meta.url).resolve("#built/guest/step.js"),
  "utf8",
);
const module = compileModule();
const NAME = "step//./test//body";
const NOW = 1_700_000_000_000;

type Init = Extract<StepCommand, { t: "init" }>;

class StepHeap {
  readonly instance: Instance;
  now = NOW;

  constructor(body: string, init: Partial<Init> = {}, input: object = { args: [] }) {
    this.instance = new Instance(module, 2048);
    this.instance.heapBytesMax = 64 << 20;
    this.instance.host = {
      isInterrupted: () => false,
      hostCall: () => undefined,
      clockWasRead: () => undefined,
    };
    this.instance.createContext(256 << 10, 0);
    this.instance.boot(`(function () {${library}\nreturn __baton_guest.boot;})()`, "baton:guest");
    this.instance.run(
      `const lib = globalThis[Symbol.for("baton.guest")];
       async function body(...args) { ${body} }
       body.stepId = "${NAME}"; body.maxRetries = 5;
       globalThis[Symbol.for("@workflow/core//registeredSteps")].set("${NAME}", body);`,
      "bundle.js",
    );
    this.send({
      t: "init",
      now: NOW,
      runId: "wrun_01HF7YAT00TEST00000000000A",
      workflowName: "workflow//./test//main",
      runStartedAt: NOW - 5000,
      stepId: "step_01HF7YAT00PXDRT10CJSGQCK4Q",
      stepName: NAME,
      attempt: 1,
      isLast: false,
      stepStartedAt: NOW - 100,
      seed: "0a".repeat(32),
      payloadBytesMax: 128 << 10,
      callsOpenMax: 20,
      consoleBytesPerPassMax: 64 << 10,
      env: { TOKEN: "secret" },
      ...init,
    });
    this.send({ t: "run", now: NOW }, encodeText(input));
  }

  send(command: StepCommand, payload: string | null = null): string {
    const answer = this.instance.dispatch(JSON.stringify(command), payload, 1 << 20);
    while (this.instance.hasJobs) this.instance.runJobs(200);
    return answer as string;
  }

  report(): StepReport {
    return JSON.parse(this.send({ t: "report", now: this.now })) as StepReport;
  }

  call<K extends StepCall["k"]>(kind: K): Extract<StepCall, { k: K }> {
    const call = this.report().calls[0];
    expect(call?.k).toBe(kind);
    return call as Extract<StepCall, { k: K }>;
  }

  settle(n: number, payload: string | null, ok = true): void {
    this.now += 10;
    this.send({ t: "settle", now: this.now, n, ok }, payload);
  }

  result(): unknown {
    const { done } = this.report();
    expect(done).toMatchObject({ ok: true });
    return decodeText(done?.text as string);
  }
}

describe("a step's body", () => {
  it("gets its arguments, what it captured, and its context", () => {
    const heap = new StepHeap(
      `const { closureVars } = globalThis[Symbol.for("WORKFLOW_STEP_CONTEXT_STORAGE")].getStore();
       return [args, closureVars, lib.workflow.getStepMetadata(), lib.workflow.getWorkflowMetadata(),
         process.env.TOKEN];`,
      { attempt: 2 },
      { args: [1, { d: new Date(5) }], closureVars: { outer: 7 } },
    );
    expect(heap.result()).toMatchObject([
      [1, { d: new Date(5) }],
      { outer: 7 },
      { stepName: NAME, attempt: 2, stepStartedAt: new Date(NOW - 100) },
      { workflowRunId: "wrun_01HF7YAT00TEST00000000000A" },
      "secret",
    ]);
  });

  it("tells its host how its error is to be taken", () => {
    const done = (body: string, init: Partial<Init> = {}) => new StepHeap(body, init).report().done;
    expect(done(`throw new Error("x")`)).toMatchObject({
      ok: false,
      isFatal: false,
      retryAt: null,
    });
    expect(done(`throw new lib.errors.FatalError("x")`)).toMatchObject({ isFatal: true });
    expect(done(`throw new DOMException("x", "AbortError")`)).toMatchObject({ isFatal: true });
    expect(done(`throw new lib.errors.RetryableError("x", { retryAfter: "1m" })`)).toMatchObject({
      isFatal: false,
      retryAt: NOW + 60_000,
    });
    expect(done(`return () => 1`)).toMatchObject({ ok: false, isFatal: true });
    const last = done(`throw new Error("last")`, { attempt: 4, isLast: true });
    expect(decodeText(last?.text as string)).toMatchObject({
      name: "FatalError",
      message: `Step "${NAME}" failed after 3 retries: last`,
      cause: expect.objectContaining({ message: "last" }),
    });
  });

  it("fails for good if its bundle has no such step", () => {
    const heap = new StepHeap("", { stepName: "step//./test//other" });
    expect(heap.report().done).toMatchObject({ ok: false, isFatal: true });
  });

  it("names its steps and their retries before there is an attempt", () => {
    const heap = new StepHeap("");
    const { steps } = JSON.parse(heap.send({ t: "registered", now: NOW })) as RegisteredSteps;
    expect(steps.filter(({ id }) => !id.startsWith("__builtin_"))).toEqual([
      { id: NAME, maxRetries: 5 },
    ]);
  });
});

describe("calls of a body to the host", () => {
  it("timers wait for the host, and the clock is the host's", () => {
    const heap = new StepHeap(`const before = Date.now();
      await new Promise((resolve) => setTimeout(resolve, 1500)); return Date.now() - before;`);
    const timer = heap.call("timer");
    expect(timer).toEqual({ k: "timer", n: 0, ms: 1500 });
    heap.now = NOW + 1490;
    heap.settle(timer.n, null);
    expect(heap.result()).toBe(1500);
  });

  it("an interval repeats until it is cleared, and a cleared timer is cancelled", () => {
    const heap = new StepHeap(`let count = 0;
      const dead = setTimeout(() => { throw new Error("dead") }, 5); clearTimeout(dead);
      await new Promise((resolve) => { const id = setInterval(() => {
        count += 1; if (count === 2) { clearInterval(id); resolve(); } }, 10); });
      return count;`);
    const { calls, cancelled } = heap.report();
    expect(cancelled).toEqual([0]);
    heap.settle(calls[1]?.n as number, null);
    heap.settle(heap.call("timer").n, null);
    expect(heap.report()).toMatchObject({ calls: [], done: { ok: true } });
  });

  it("fetch sends what the request says and gives the answer's body", () => {
    const heap = new StepHeap(`const response = await fetch("https://a.example/x?y=1", {
        method: "post", headers: { "X-A": "b" }, body: JSON.stringify({ a: 1 }) });
      return [response.status, response.ok, response.headers.get("x-r"), await response.json()];`);
    const call = heap.call("fetch");
    expect(call).toMatchObject({
      url: "https://a.example/x?y=1",
      method: "POST",
      headers: [
        ["content-type", "text/plain;charset=UTF-8"],
        ["x-a", "b"],
      ],
      body: Buffer.from('{"a":1}').toString("base64"),
      uploads: false,
    });
    const body = Buffer.from('{"ok":["ä"]}').toString("base64");
    const answer = {
      status: 201,
      statusText: "",
      headers: [["x-r", "1"]],
      url: "",
      redirected: false,
    };
    heap.settle(call.n, JSON.stringify({ ...answer, hasBody: true }));
    heap.settle(heap.call("fetch_read").n, JSON.stringify({ bytes: body }));
    heap.settle(heap.call("fetch_read").n, JSON.stringify({ bytes: null }));
    expect(heap.result()).toEqual([201, true, "1", { ok: ["ä"] }]);
  });

  it("a call that the host refuses fails in the body, which may catch it", () => {
    const heap = new StepHeap(
      `try { await fetch("http://a.example") } catch (e) { return [e.name, e.message] }`,
    );
    const refusal = new TypeError("egress is not allowed");
    heap.settle(heap.call("fetch").n, encodeText(refusal), false);
    expect(heap.result()).toEqual(["TypeError", "egress is not allowed"]);
  });

  it("an abort of the attempt fires its signals and ends its calls", () => {
    const signal = new OpaqueValue("AbortSignal", {
      streamName: "abrt_x",
      hookToken: "abrt_x",
      runId: "wrun_01HF7YAT00TEST00000000000A",
      aborted: false,
    });
    const body = `const [signal] = args; const seen = [];
      signal.addEventListener("abort", () => seen.push("fired"));
      try { await fetch("http://a.example", { signal }) } catch (e) { seen.push(e.name) }
      return seen;`;
    const attempt = new StepHeap(body, {}, { args: [signal] });
    expect(attempt.report().calls.map((call) => call.k)).toEqual(["watch_abort", "fetch"]);
    attempt.send({ t: "abort", now: NOW });
    expect(attempt.report()).toMatchObject({ cancelled: [0, 1], done: { ok: true } });

    const workflow = new StepHeap(body, {}, { args: [signal] });
    workflow.settle(workflow.call("watch_abort").n, encodeText(new RangeError("stop")));
    expect(workflow.report()).toMatchObject({ cancelled: [1] });
    expect(workflow.result()).toEqual(["fired", "RangeError"]);
  });

  it("what is written to the run's stream leaves as bytes or as values", () => {
    const heap =
      new StepHeap(`const writer = lib.workflow.getWritable({ namespace: "log" }).getWriter();
      await writer.write(new Uint8Array([1, 2])); await writer.write({ a: 1n }); await writer.close();
      return "done";`);
    const stream = "strm_01HF7YAT00TEST00000000000A_user_log";
    const first = heap.call("stream_write");
    expect(first).toMatchObject({ stream, bytes: "AQI=", text: null });
    heap.settle(first.n, null);
    const second = heap.call("stream_write");
    expect(decodeText(second.text as string)).toEqual({ a: 1n });
    heap.settle(second.n, null);
    const close = heap.call("stream_close");
    expect(close).toMatchObject({ stream, error: null });
    heap.settle(close.n, null);
    expect(heap.result()).toBe("done");
  });

  it("a stream that was passed in is read chunk by chunk to its end", () => {
    const stream = new OpaqueValue("ReadableStream", { name: "strm_a" });
    const heap = new StepHeap(
      `const seen = []; for await (const chunk of args[0]) seen.push(chunk); return seen;`,
      {},
      { args: [stream] },
    );
    const chunks = [
      { bytes: "AQI=", text: null },
      { bytes: null, text: encodeText({ b: 2 }) },
      { bytes: null, text: null },
    ];
    chunks.forEach((chunk, index) => {
      const read = heap.call("stream_read");
      expect(read).toMatchObject({ stream: "strm_a", index });
      heap.settle(read.n, JSON.stringify({ ...chunk, next: index + 1 }));
    });
    expect(heap.result()).toEqual([new Uint8Array([1, 2]), { b: 2 }]);
  });

  it("functions of the platform are asked of the host, and Run handles survive the trip", () => {
    const heap = new StepHeap(`const run = await lib.api.start({ workflowId: "w" }, [1]);
      return [run.runId, run instanceof lib.api.Run, await run.status];`);
    const start = heap.call("api");
    expect(start.op).toBe("start");
    expect(decodeText(start.args)).toEqual([{ workflowId: "w" }, [1], undefined]);
    const run = new OpaqueValue("Instance", { classId: RUN_CLASS_ID, data: { runId: "wrun_x" } });
    heap.settle(start.n, encodeText(run));
    const field = heap.call("api");
    expect(decodeText(field.args)).toEqual(["wrun_x", "status"]);
    heap.settle(field.n, encodeText("running"));
    expect(heap.result()).toEqual(["wrun_x", true, "running"]);
  });

  it("more calls at once than allowed fail in the body", () => {
    const heap = new StepHeap(`let failed = 0;
      for (let i = 0; i < 25; i++) try { setTimeout(() => 1, 5) } catch (e) { failed += e.name === "QuotaExceededError" }
      return failed;`);
    expect(heap.result()).toBe(5);
  });

  it("digests are those of Node", () => {
    const heap = new StepHeap(`const data = new TextEncoder().encode("abc");
      const all = [];
      for (const name of ["SHA-1", "SHA-256", "SHA-512"])
        all.push(new Uint8Array(await crypto.subtle.digest(name, data)));
      return all;`);
    const digests = (heap.result() as Uint8Array[]).map((bytes) =>
      Buffer.from(bytes).toString("hex"),
    );
    expect(digests).toEqual(
      ["sha1", "sha256", "sha512"].map((name) => createHash(name).update("abc").digest("hex")),
    );
  });
});
