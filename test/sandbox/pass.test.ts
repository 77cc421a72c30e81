import { afterAll, describe, expect, it } from "vitest";
import { createSandbox } from "../../sandbox/index.ts";
import {
  eventFrom,
  only,
  opened,
  outputOf,
  program,
  quiet,
  requestFor,
  started,
  stepCompleted,
} from "./heaps.ts";

const sandbox = createSandbox({ form: "calling-thread" });
afterAll(() => sandbox.close());

describe("passes", () => {
  it("a workflow asks for a step, gets its result and completes with its output", async () => {
    const heap = await opened(
      sandbox,
      requestFor(program(`return (await step("add", [1, 2])) + 1;`)),
    );
    const step = only(await heap.pass([started()]));
    expect(step).toMatchObject({ kind: "step", stepName: "add" });
    const result = await heap.pass([stepCompleted(2, step.correlationId, 3)]);
    expect(outputOf(result)).toBe(4);
    expect(quiet(result).operations).toEqual([]);
    heap.close();
  });

  it("operations stay listed, in the order asked, until their events close them", async () => {
    const bundle = program(`await Promise.all([step("a"), sleep(5), step("b")]); return 1;`);
    const heap = await opened(sandbox, requestFor(bundle));
    const { operations } = quiet(await heap.pass([started()]));
    expect(operations.map((operation) => operation.kind)).toEqual(["step", "wait", "step"]);
    const first = operations[0]?.correlationId as never;
    const after = quiet(await heap.pass([stepCompleted(2, first, null)]));
    expect(after.operations).toEqual(operations.slice(1));
    heap.close();
  });

  it("all jobs of one event run before the next event is fed", async () => {
    const bundle = program(`
      const seen = [];
      const a = step("a").then(async () => { for (let i = 0; i < 50; i++) await null; seen.push("a"); });
      const b = step("b").then(() => seen.push("b"));
      await Promise.all([a, b]);
      return seen;`);
    const heap = await opened(sandbox, requestFor(bundle));
    const [a, b] = quiet(await heap.pass([started()])).operations;
    const both = [
      stepCompleted(2, a?.correlationId as never, null),
      stepCompleted(3, b?.correlationId as never, null),
    ];
    expect(outputOf(await heap.pass(both))).toEqual(["a", "b"]);
    heap.close();
  });

  it("events fed at once and one at a time end in the same operations", async () => {
    const bundle = program(`
      const out = []; for (let i = 0; i < 5; i++) out.push(await step("s" + i, out.length)); return out;`);
    const oneByOne = await opened(sandbox, requestFor(bundle));
    const events = [started()];
    let result = await oneByOne.pass(events);
    for (let slot = 2; slot <= 5; slot++) {
      const event = stepCompleted(slot, only(result).correlationId, slot);
      events.push(event);
      result = await oneByOne.pass([event]);
    }
    const atOnce = await opened(sandbox, requestFor(bundle));
    expect(quiet(await atOnce.pass(events)).operations).toEqual(quiet(result).operations);
    oneByOne.close();
    atOnce.close();
  });

  it("an event of something that the code never asked for is a divergence, with its slot", async () => {
    const heap = await opened(sandbox, requestFor(program(`await step("a");`)));
    await heap.pass([started()]);
    const stranger = eventFrom(9, {
      eventType: "wait_completed",
      correlationId: "wait_x" as never,
    });
    expect(await heap.pass([stranger])).toEqual({
      kind: "diverged",
      divergence: { slot: 9, found: "wait_completed", expected: "nothing" },
    });
    expect(await heap.pass([])).toMatchObject({ kind: "lost" });
  });

  it("a payload that is no devalue text is refused by name, and its heap is gone", async () => {
    const heap = await opened(sandbox, requestFor(program(`await step("a");`)));
    const sealed = eventFrom(1, { payload: new TextEncoder().encode("encr....") });
    await expect(heap.pass([sealed])).rejects.toMatchObject({ code: "PAYLOAD_UNREADABLE" });
    expect(await heap.pass([])).toMatchObject({ kind: "lost" });
  });

  it("the guest's Date shows the clock that the library set, in UTC, and nothing of the machine", async () => {
    const bundle = program(`
      const before = Date.now(); await step("a");
      return [before, Date.now(), new Date().getTimezoneOffset(), new Date(0).getHours(), String(new Date(0))];`);
    const heap = await opened(sandbox, requestFor(bundle));
    const step = only(await heap.pass([started()]));
    const [before, after, ...rest] = outputOf(
      await heap.pass([stepCompleted(2, step.correlationId, null)]),
    ) as unknown[];
    expect([before, after]).toEqual([1_700_000_000_000, 1_700_000_002_000]);
    expect(rest).toEqual([0, 0, "Thu Jan 01 1970 00:00:00 GMT+0000"]);
    heap.close();
  });
});

describe("bundles", () => {
  it("one that throws while it is loaded is refused with its message and stack", async () => {
    const bundle = {
      ...program(""),
      workflowCode: `function f() { throw new TypeError("no"); }\nf();`,
    };
    expect(await sandbox.open(requestFor(bundle))).toMatchObject({
      kind: "bundle_failed",
      error: { message: "TypeError: no", stack: expect.stringContaining("bundle.js:1") as string },
    });
    expect(await sandbox.inspect(bundle, requestFor(bundle).limits)).toMatchObject({
      kind: "refused",
      reason: expect.stringContaining("TypeError: no") as string,
    });
  });

  it("what one registers is listed, and it shares its image unless it reads the clock", async () => {
    const { limits } = requestFor(program(""));
    expect(await sandbox.inspect(program("return 1;"), limits)).toEqual({
      kind: "admitted",
      workflows: ["main"],
      steps: [],
      sharesImage: true,
      notes: [],
    });
    const reader = program("return at;");
    const code = `const at = now(); ${reader.workflowCode}`;
    expect(await sandbox.inspect({ ...reader, workflowCode: code }, limits)).toMatchObject({
      kind: "admitted",
      sharesImage: false,
    });
    const native = { ...reader, workflowCode: `const at = Date.now(); ${reader.workflowCode} //` };
    expect(await sandbox.inspect(native, limits)).toMatchObject({ sharesImage: false });
  });

  it("one that reads the clock at top level is loaded anew by each run, under its own clock", async () => {
    const reader = program("return at;");
    const bundle = { ...reader, workflowCode: `const at = Date.now(); ${reader.workflowCode}//2` };
    for (const createdAt of [1000, 2000]) {
      const heap = await opened(sandbox, requestFor(bundle, { createdAt }));
      expect(outputOf(await heap.pass([started()]))).toBe(createdAt);
      heap.close();
    }
  });
});
