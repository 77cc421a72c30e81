import { describe, expect, it } from "vitest";
import { OpaqueValue, RUN_CLASS_ID } from "../../../sandbox/host-codec.ts";
import { CREATED_AT, TestHeap } from "./heap.ts";

describe("payloads", () => {
  it("reach successive awaits in slot order, buffered or not", () => {
    const heap = TestHeap.running(`
      const hook = createHook({ token: "t" });
      const first = await hook; await step("between");
      return [first, await hook, await hook];`);
    const [hook] = heap.ids();
    heap.receives(hook as string, 1);
    heap.receives(hook as string, 2);
    const [between] = heap.steps();
    expect(heap.report().awaited).toEqual([]);
    heap.completes(between?.id as string);
    expect(heap.report().awaited).toEqual([hook]);
    heap.receives(hook as string, 3);
    expect(heap.outcome().value).toEqual([1, 2, 3]);
  });

  it("are iterated until the hook is disposed, also by another branch", () => {
    const heap = TestHeap.running(`
      const hook = createHook({ token: "t" }); const seen = [];
      const loop = (async () => { for await (const value of hook) seen.push(value) })();
      await step("gate"); hook.dispose(); await loop; return seen;`);
    const [hook, gate] = heap.ids();
    heap.receives(hook as string, "a");
    heap.receives(hook as string, "b");
    heap.completes(gate as string);
    expect(heap.report().asked).toEqual([{ k: "dispose", n: null, id: hook }]);
    expect(heap.outcome().value).toEqual(["a", "b"]);
    expect(heap.event("hook_disposed", hook as string)).toBe("");
    expect(heap.report().closed).toEqual([hook]);
    expect(heap.receives(hook as string, "late")).toBe("");
  });

  it("a disposal by scope and one by hand ask once", () => {
    const heap = TestHeap.running(`
      const hook = createHook({ token: "t" });
      hook[Symbol.dispose](); hook.dispose(); await sleep(1);`);
    expect(heap.report().asked.map((ask) => ask.k)).toEqual(["hook", "dispose", "wait"]);
  });

  it("pass through the schema of a defined hook", () => {
    const heap = TestHeap.running(`
      const schema = { "~standard": { version: 1, vendor: "test", validate: (value) =>
        typeof value === "number" ? { value: value * 2 } : { issues: [{ message: "no" }] } } };
      const hook = defineHook({ schema }).create({ token: "t" });
      const good = await hook; let bad; try { await hook } catch (e) { bad = [e.name, e.cause] }
      return [good, bad, hook.token];`);
    const [hook] = heap.ids();
    heap.receives(hook as string, 21);
    heap.receives(hook as string, "x");
    expect(heap.outcome().value).toEqual([42, ["TypeError", [{ message: "no" }]], "t"]);
  });
});

describe("a token that another run holds", () => {
  const body = `
    const hook = createHook({ token: "t" });
    const conflict = await hook.getConflict();
    let error; try { await hook } catch (e) { error = [e.name, e.token, e.conflictingRunId, lib.errors.HookConflictError.is(e)] }
    return [conflict?.runId, error];`;

  it("is answered with the run, and awaits reject", () => {
    const heap = TestHeap.running(body);
    const { asked, awaitedConflicts } = heap.report();
    expect(asked[0]).toMatchObject({ k: "hook", conflict: true });
    expect(awaitedConflicts).toEqual([asked[0]?.id]);
    heap.event("hook_conflict", asked[0]?.id as string, { conflictingRunId: "wrun_other" });
    expect(heap.report()).toMatchObject({ closed: [asked[0]?.id], awaitedConflicts: [] });
    expect(heap.outcome().value).toEqual([
      "wrun_other",
      ["HookConflictError", "t", "wrun_other", true],
    ]);
  });

  it("is null once the hook is this run's, whenever it is asked", () => {
    const heap = TestHeap.running(`const hook = createHook({ token: "t" });
      const first = await hook.getConflict(); return [first, await hook.getConflict()]`);
    heap.event("hook_created", heap.ids()[0] as string);
    expect(heap.outcome().value).toEqual([null, null]);
  });

  it("claimed by force later, its awaits reject, and the clock is that event's", () => {
    const heap = TestHeap.running(`const hook = createHook({ token: "t" });
      try { await hook } catch (e) { return [e.name, Date.now()] }`);
    const [hook] = heap.ids();
    heap.event("hook_disposed", hook as string, { at: CREATED_AT + 77 });
    expect(heap.outcome().value).toEqual(["HookForceClaimedError", CREATED_AT + 77]);
  });
});

describe("what a hook is asked with", () => {
  it("retention, force and metadata are reported", () => {
    const heap = TestHeap.running(`createHook({ token: "t", experimental_minRetention: "1m",
      experimental_force: true, metadata: { a: 1n } }); await sleep(1)`);
    expect(heap.report().asked[0]).toMatchObject({
      token: "t",
      retentionMs: 60_000,
      force: true,
      webhook: false,
      metadata: expect.stringContaining("BigInt"),
    });
  });

  it.each([
    "{ token: '' }",
    "{ token: 5 }",
    "{ token: 'x'.repeat(600) }",
    "{ experimental_minRetention: 'soon' }",
  ])("%s is refused at the call", (options) => {
    const heap = TestHeap.running(`try { createHook(${options}) } catch (e) { return e.name }`);
    expect(heap.outcome().value).toBe("TypeError");
    expect(heap.report().drawn).toBe(0);
  });

  it("a webhook without a base URL refuses to give an address, and says what is missing", () => {
    const heap = TestHeap.running(`
      const hook = createWebhook();
      try { return hook.url } catch (e) { return [e.name, e.message.includes("base URL")] }`);
    expect(heap.outcome().value).toEqual(["NotAvailableError", true]);
  });

  it("a webhook has a token of its own, an address, and the reply it was made with", () => {
    const heap = TestHeap.running(
      `
      const hook = createWebhook({ respondWith: new Response("ok", { status: 202 }) });
      let refused; try { createWebhook({ token: "mine" }) } catch (e) { refused = e.name }
      const request = await hook;
      const url = "https://hooks.example/a/.well-known/workflow/v1/webhook/" + hook.token;
      return [hook.url === url, refused, request.method, await request.json()];`,
      { baseUrl: "https://hooks.example/a" },
    );
    const [ask] = heap.report().asked;
    expect(ask).toMatchObject({
      k: "hook",
      webhook: true,
      token: expect.stringMatching(/^[0-9a-f]{40}$/),
    });
    const text = `[["Request",1],{"method":2,"url":3,"headers":4,"body":5},"POST","https://a.example/",["Headers",6],["ReadableStream",7],[],{"bodyInit":8},"{\\"a\\":1}"]`;
    heap.event("hook_received", ask?.id as string, { payload: text });
    expect(heap.outcome().value).toEqual([true, "TypeError", "POST", { a: 1 }]);
  });
});

describe("a webhook that answers by hand", () => {
  it("answers through a step of the library, which gets what came with the request", () => {
    const heap = TestHeap.running(`
      const hook = createWebhook({ respondWith: "manual" });
      const request = await hook; await request.respondWith(new Response("yes", { status: 201 }));
      await step("pass on", request);`);
    const text = `[["Request",1],{"method":2,"url":3,"headers":4,"body":5,"responseWritable":6},"GET","https://a.example/",["Headers",8],null,["WritableStream",7],{"name":9},[],"strm_answer"]`;
    heap.event("hook_received", heap.ids()[0] as string, { payload: text });
    const [respond] = heap.steps();
    expect(respond?.name).toBe("__builtin_respond_with");
    const [writable, response] = (respond?.args ?? []) as OpaqueValue[];
    expect(writable?.data).toEqual({ name: "strm_answer" });
    expect(response?.data).toMatchObject({ status: 201 });
    heap.completes(respond?.id as string);
    const [passed] = heap.steps();
    const [request] = (passed?.args ?? []) as OpaqueValue[];
    expect(request?.data).toHaveProperty("responseWritable");
  });
});

describe("streams in a workflow", () => {
  it("are handles: they can be passed on, not used", () => {
    const heap = TestHeap.running(`
      const writable = getWritable({ namespace: "log" });
      const seen = [];
      for (const use of [() => writable.getWriter(), () => new ReadableStream(), () => getWritable({ namespace: "" })])
        try { use() } catch (e) { seen.push(e.name) }
      const back = await step("write", writable);
      return [seen, back === writable, back instanceof WritableStream];`);
    const [write] = heap.steps();
    const [handle] = (write?.args ?? []) as OpaqueValue[];
    expect(handle).toMatchObject({
      tag: "WritableStream",
      data: { name: "strm_01HF7YAT00TEST00000000000A_user_log" },
    });
    heap.completes(write?.id as string, handle);
    expect(heap.outcome().value).toEqual([
      ["NotAvailableError", "NotAvailableError", "TypeError"],
      false,
      true,
    ]);
  });
});

describe("what runs as a step of the library", () => {
  it("fetch, start and what a Run is asked", () => {
    const heap = TestHeap.running(`
      const response = await lib.workflow.fetch("https://a.example", { method: "POST" });
      const run = await lib.api.start(main, [1, 2]);
      return [response.status, await response.text(), run.runId, await run.returnValue,
        lib.api.getRun("wrun_y").runId];`);
    const [fetched] = heap.steps();
    expect(fetched).toMatchObject({
      name: "__builtin_fetch",
      args: ["https://a.example", { method: "POST" }],
    });
    const text = `[["Response",1],{"status":2,"statusText":3,"headers":4,"body":5},200,"",["Headers",6],["ReadableStream",7],[],{"bodyInit":8},"hello"]`;
    heap.event("step_completed", fetched?.id as string, { payload: text });
    const [start] = heap.steps();
    expect(start).toMatchObject({
      name: "__builtin_start",
      args: [{ workflowId: "workflow//./test//main" }, [1, 2], undefined],
    });
    const run = new OpaqueValue("Instance", { classId: RUN_CLASS_ID, data: { runId: "wrun_x" } });
    heap.completes(start?.id as string, run);
    const [field] = heap.steps();
    expect(field).toMatchObject({ name: "__builtin_run_field", args: ["wrun_x", "returnValue"] });
    heap.completes(field?.id as string, 42);
    expect(heap.outcome().value).toEqual([200, "hello", "wrun_x", 42, "wrun_y"]);
  });

  it("what belongs outside of workflows says so", () => {
    const heap = TestHeap.running(`
      const seen = [];
      for (const call of [() => lib.api.resumeHook("t"), () => lib.api.getHookByToken("t"),
        () => lib.api.registerLifecycleHooks({}), () => defineHook().resume("t"),
        () => lib.workflow.getStepMetadata()])
        try { await call() } catch (e) { seen.push(e.name) }
      return seen;`);
    expect(heap.outcome().value).toEqual(Array.from({ length: 5 }, () => "NotAvailableError"));
  });
});

describe("abort signals", () => {
  it("one that stays in the workflow costs nothing; one that leaves opens a system hook", () => {
    const heap = TestHeap.running(`
      const here = new AbortController(); here.abort(); const away = new AbortController();
      const work = step("work", { signal: away.signal });
      await sleep("1m"); away.abort("too late"); await work;`);
    const asked = heap.report().asked;
    expect(asked).toMatchObject([
      { k: "hook", system: true, token: expect.stringMatching(/^abrt_/) },
      { k: "step" },
      { k: "wait" },
    ]);
    heap.event("wait_completed", asked[2]?.id as string);
    expect(heap.report().asked).toMatchObject([
      { k: "dispose", id: asked[0]?.id },
      { k: "step", name: "__builtin_abort" },
    ]);
  });

  it("a payload on the system hook aborts the signal at its slot", () => {
    const heap = TestHeap.running(`
      const controller = new AbortController(); const seen = [];
      controller.signal.addEventListener("abort", () => seen.push(Date.now()));
      step("work", controller);
      const cancelled = new Promise((resolve) => controller.signal.addEventListener("abort", resolve));
      await cancelled; return [seen, controller.signal.reason];`);
    const [hook] = heap.ids();
    heap.receives(hook as string, { reason: "enough" }, CREATED_AT + 5);
    expect(heap.outcome().value).toEqual([[CREATED_AT + 5], "enough"]);
  });

  it("timeouts are waits of the run", () => {
    const heap = TestHeap.running(`const signal = AbortSignal.any([AbortSignal.timeout(5000)]);
      await new Promise((resolve) => signal.addEventListener("abort", resolve)); return signal.reason.name;`);
    const [wait] = heap.report().asked;
    expect(wait).toMatchObject({ k: "wait", at: CREATED_AT + 5000 });
    heap.event("wait_completed", wait?.id as string);
    expect(heap.outcome().value).toBe("TimeoutError");
  });
});
