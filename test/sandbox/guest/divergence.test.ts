import { describe, expect, it } from "vitest";
import { encodeText } from "../../../sandbox/host-codec.ts";
import { CREATED_AT, TestHeap } from "./heap.ts";

function divergenceOf(answer: string): unknown {
  return answer === "" ? null : (JSON.parse(answer) as { diverged: unknown }).diverged;
}

describe("a log that contradicts the code", () => {
  it("is reported with the slot, what was found, and what the code asks for there", () => {
    const heap = TestHeap.running(`await step("second")`);
    const [id] = heap.ids();
    const answer = heap.event("step_created", id as string, {
      asked: { stepName: "step//./test//first" },
    });
    expect(divergenceOf(answer)).toEqual({
      slot: 2,
      found: `step_created of the step "step//./test//first" for ${id}`,
      expected: `the step "step//./test//second", ${id}`,
    });
  });

  it("is one if an entity is of another kind", () => {
    for (const type of ["wait_created", "hook_created", "wait_completed", "attr_set"] as const) {
      const heap = TestHeap.running(`await step("a")`);
      expect(divergenceOf(heap.event(type, heap.ids()[0] as string))).toMatchObject({
        expected: expect.stringContaining("the step"),
      });
    }
  });

  it("is one if an event belongs to nothing that the code has asked for", () => {
    const other = TestHeap.running(`await step("a")`, { seed: "0b".repeat(32) }).ids()[0] as string;
    const waiting = TestHeap.running(`await sleep("1h")`);
    expect(divergenceOf(waiting.completes(other))).toMatchObject({
      found: `step_completed for ${other}`,
      expected: expect.stringContaining("a sleep"),
    });
    const ended = TestHeap.running(`return 1`);
    expect(divergenceOf(ended.completes(other))).toMatchObject({
      expected: "nothing: the code asked for nothing more",
    });
  });

  it("is one if the code has not come as far as the log", () => {
    const ahead = TestHeap.running(`await step("a"); await step("b");`);
    const [a] = ahead.ids();
    ahead.completes(a as string);
    const [b] = ahead.ids();
    const behind = TestHeap.running(`await step("a"); await step("b");`);
    expect(divergenceOf(behind.completes(b as string))).not.toBeNull();
  });

  it("is none for a wait whose length the code computes otherwise: the recorded deadline wins", () => {
    const heap = TestHeap.running(`await sleep(input)`, { args: [5000] });
    const [id] = heap.ids();
    expect(heap.event("wait_created", id as string, { asked: { resumeAt: CREATED_AT + 9 } })).toBe(
      "",
    );
    expect(heap.open().asked).toMatchObject([{ k: "wait", at: CREATED_AT + 9 }]);
  });
});

describe("inert events", () => {
  const LATE = [
    "step_started",
    "step_retrying",
    "step_completed",
    "step_failed",
    "step_created",
  ] as const;

  it("of a settled step, wait, hook or attribute do nothing, whatever their type", () => {
    const heap = TestHeap.running(`
      const hook = createHook({ token: "t" });
      await step("a"); await sleep(5); await setAttributes({ k: "v" }); hook.dispose();
      await step("gate"); return Date.now();`);
    const [hook, a] = heap.ids();
    heap.completes(a as string, 1, CREATED_AT + 1);
    const [wait] = heap.ids();
    heap.event("wait_completed", wait as string, { at: CREATED_AT + 2 });
    const [attr] = heap.ids();
    heap.event("attr_set", attr as string);
    const [, gate] = heap.ids();
    heap.event("hook_disposed", hook as string, { at: CREATED_AT + 3 });
    const before = JSON.stringify(heap.open());
    for (const type of LATE) {
      expect(heap.event(type, a as string, { asked: { stepName: "other" } })).toBe("");
    }
    expect(heap.event("wait_completed", wait as string)).toBe("");
    expect(heap.event("attr_set", attr as string)).toBe("");
    expect(heap.receives(hook as string, 1)).toBe("");
    expect(heap.event("hook_created", hook as string)).toBe("");
    expect(JSON.stringify(heap.open())).toBe(before);
    heap.completes(gate as string, 1, CREATED_AT + 4);
    expect(heap.outcome().value).toBe(CREATED_AT + 4);
  });

  it("a second outcome changes nothing: the first by slot counts", () => {
    const heap = TestHeap.running(`const first = await step("a"); await step("b"); return first`);
    const [a] = heap.ids();
    heap.completes(a as string, "first");
    heap.completes(a as string, "second");
    heap.fails(a as string, new Error("third"));
    heap.completes(heap.ids()[0] as string);
    expect(heap.outcome().value).toBe("first");
  });

  it("starts and retries of an open step resume nothing", () => {
    const heap = TestHeap.running(`await step("a")`);
    const [a] = heap.ids();
    for (const type of ["step_created", "step_started", "step_retrying", "step_started"] as const) {
      expect(heap.event(type, a as string)).toBe("");
    }
    expect(heap.report()).toMatchObject({ asked: [], closed: [], done: null });
  });
});

describe("sleep", () => {
  it.each([
    "NaN",
    "Infinity",
    "-Infinity",
    "'abc'",
    "''",
    "null",
    "undefined",
    "{}",
    "2 ** 53",
    "new Date(NaN)",
    "'1 fortnight'",
    "'9'.repeat(200)",
  ])("%s throws at the call and draws nothing", (value) => {
    // prettier-ignore
    const heap = TestHeap.running(`try { sleep(${value}); return "slept" } catch (e) { return e.name }`);
    expect(heap.outcome().value).toBe("TypeError");
    expect(heap.report().drawn).toBe(0);
  });

  it.each<[string, number]>([
    ["0", 0],
    ["-1", -1],
    ["1.2", 2],
    ["'500'", 500],
    ["'2 days'", 2 * 86_400_000],
    ["'1.5h'", 5_400_000],
    ["'1m'", 60_000],
    ["'100 ms'", 100],
    ["'60d'", 60 * 86_400_000],
    ["'1y'", 31_557_600_000],
  ])("%s is a wait of so many ms, also if it is over already", (value, ms) => {
    const heap = TestHeap.running(`await sleep(${value}); return "slept"`);
    const [wait] = heap.report().asked;
    expect(wait).toMatchObject({ k: "wait", at: CREATED_AT + ms });
    heap.event("wait_completed", wait?.id as string);
    expect(heap.outcome().value).toBe("slept");
  });

  it("until a date, or one that has passed", () => {
    const heap = TestHeap.running(`sleep(new Date(0)); sleep(new Date(${CREATED_AT + 5}))`);
    expect(heap.report().asked).toMatchObject([{ at: 0 }, { at: CREATED_AT + 5 }]);
  });
});

describe("limits of what is asked", () => {
  it("as many open operations as allowed pass, and one more fails catchably without an id", () => {
    const heap = TestHeap.running(
      `const all = Array.from({ length: 9 }, () => step("a")); sleep(5);
       const errors = [];
       for (const call of [() => step("b"), () => sleep(1), () => setAttributes({ a: "1" }),
         () => createHook({ token: "t" })])
         try { await call() } catch (e) { errors.push([e.name, e.code, e.allowed]) }
       await all[0]; return errors;`,
      { openOperationsMax: 10 },
    );
    const report = heap.report();
    expect(report).toMatchObject({ drawn: 10, done: null });
    heap.completes(report.asked[0]?.id as string);
    expect(heap.outcome().value).toEqual(
      Array.from({ length: 4 }, () => ["QuotaExceededError", "DECISION_LIMIT_EXCEEDED", 10]),
    );
  });

  it.each([
    [`{ ["k".repeat(257)]: "v" }`],
    [`{ "": "v" }`],
    [`{ $mine: "v" }`],
    [`{ k: "ä".repeat(129) }`],
    [`{ k: 5 }`],
    [`Object.fromEntries(Array.from({ length: 65 }, (_, i) => ["k" + i, "v"]))`],
    [`Object.fromEntries(Array.from({ length: 40 }, (_, i) => ["k" + i, "v".repeat(250)]))`],
  ])("attributes %s are refused, catchably", (attributes) => {
    const heap = TestHeap.running(
      `try { await setAttributes(${attributes}) } catch (e) { return e.name }`,
    );
    expect(heap.outcome().value).toBe("TypeError");
    expect(heap.report().drawn).toBe(0);
  });

  it("attributes at their limits pass, and undefined deletes", () => {
    const heap = TestHeap.running(
      `await setAttributes({ ["k".repeat(256)]: "ä".repeat(128), gone: undefined })`,
    );
    expect(heap.report().asked).toMatchObject([
      { k: "attr", changes: [{ value: "ä".repeat(128) }, { key: "gone", value: null }] },
    ]);
  });

  it("a step that the bundle does not declare is unknown at the call, catchably", () => {
    const heap = new TestHeap(`
      const lib = globalThis[Symbol.for("baton.guest")];
      lib.declareSteps(["step//./a//known"]);
      const useStep = globalThis[Symbol.for("WORKFLOW_USE_STEP")];
      globalThis.__private_workflows.set("workflow//./test//main", async () => {
        lib.declareSteps(["step//./a//late"]);
        const seen = [];
        for (const id of ["step//./a//other", "step//./a//late", "", 5, undefined, "x".repeat(2000)])
          try { await useStep(id)() } catch (e) { seen.push(e.name) }
        await useStep("step//./a//known")(); return seen; });`);
    heap.init();
    heap.begin([]);
    const [known] = heap.ids();
    heap.completes(known as string);
    expect(heap.outcome().value).toEqual(Array(6).fill("StepNotRegisteredError"));
  });

  it("console lines are bounded per pass, and say that more was dropped", () => {
    const heap = TestHeap.running(
      `for (let i = 0; i < 1000; i++) console.log("line", i, { a: "x".repeat(20) }); await step("a"); console.warn("again");`,
      { consoleBytesPerPassMax: 4096 },
    );
    const report = heap.report();
    expect(report.console.length).toBeLessThan(200);
    expect(report.console.at(-1)).toMatchObject({
      level: "warn",
      text: expect.stringContaining("4096"),
    });
    heap.completes(report.asked[0]?.id as string);
    expect(heap.report().console).toEqual([{ level: "warn", text: "again" }]);
  });
});

describe("memory", () => {
  it("does not grow with sequential steps, waits and payloads", () => {
    const heap = TestHeap.running(`
      const hook = createHook({ token: "t" });
      const hoisted = useStep("step//./test//work");
      for (let i = 0; ; i++) { await (i % 2 ? hoisted : useStep("step//./test//work"))({ i, text: "x".repeat(100) }); await sleep(5); await hook; }`);
    const [hook, first] = heap.ids();
    let step = first as string;
    const payload = encodeText({ result: [1, 2, 3], text: "y".repeat(100) });
    const round = () => {
      heap.event("step_created", step, { asked: { stepName: "step//./test//work" } });
      heap.event("step_completed", step, { payload });
      const [wait] = heap.ids();
      heap.event("wait_completed", wait as string);
      heap.report();
      heap.event("hook_received", hook as string, { payload });
      step = heap.ids()[0] as string;
    };
    for (let i = 0; i < 200; i++) round();
    const before = heap.usedBytes();
    for (let i = 0; i < 3000; i++) round();
    expect(heap.usedBytes() - before).toBeLessThan(4096);
  });
});
