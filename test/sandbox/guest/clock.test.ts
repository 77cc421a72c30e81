import { describe, expect, it } from "vitest";
import { CREATED_AT, SEED, TestHeap } from "./heap.ts";

const HOPS = [0, 1, 2, 4, 8, 16];

describe("the guest clock", () => {
  it("starts at the run's creation and moves to the time of what resumed the code", () => {
    const heap = TestHeap.running(`
      const times = [Date.now()];
      await step("a"); times.push(Date.now());
      await sleep("1h"); times.push(Date.now());
      return times;`);
    const [a] = heap.steps();
    heap.completes(a?.id as string, null, CREATED_AT + 500);
    const [wait] = heap.report().asked;
    heap.event("wait_completed", wait?.id as string, { at: CREATED_AT + 9000 });
    expect(heap.outcome().value).toEqual([CREATED_AT, CREATED_AT + 500, CREATED_AT + 9000]);
  });

  it("never goes back, whatever an event's time says", () => {
    const heap = TestHeap.running(`
      await step("a"); const first = Date.now();
      await step("b"); return Date.now() - first;`);
    heap.completes(heap.steps()[0]?.id as string, null, CREATED_AT + 5000);
    heap.completes(heap.steps()[0]?.id as string, null, CREATED_AT + 1000);
    expect(heap.outcome().value).toBe(0);
  });

  it("stands still for creations, attributes, buffered payloads and events that are inert", () => {
    const heap = TestHeap.running(`
      const hook = createHook({ token: "t" });
      const conflict = hook.getConflict().then(() => seen.push(["created", Date.now()]));
      const seen = [];
      const attribute = setAttributes({ k: "v" }).then(() => seen.push(["attr", Date.now()]));
      const gate = createHook({ token: "gate" });
      await conflict; await attribute;
      await gate; seen.push(["gate", Date.now()]);
      seen.push(["buffered", await hook, Date.now()]);
      return seen;`);
    const [hook, attr, gate] = heap.ids();
    heap.event("hook_created", hook as string, { at: CREATED_AT + 1000 });
    heap.event("attr_set", attr as string, { at: CREATED_AT + 2000 });
    heap.event("wake_requested", null, { at: CREATED_AT + 3000 });
    heap.event("run_cancelled", null, { at: CREATED_AT + 3500 });
    heap.receives(hook as string, "early", CREATED_AT + 4000);
    heap.receives(gate as string, "open", CREATED_AT + 3800);
    expect(heap.outcome().value).toEqual([
      ["created", CREATED_AT],
      ["attr", CREATED_AT],
      ["gate", CREATED_AT + 3800],
      ["buffered", "early", CREATED_AT + 3800],
    ]);
  });

  it("shows after a race the time of the winner, however late the pass runs", () => {
    const body = `
      const hook = createHook({ token: "t" });
      await Promise.race([step("work"), hook]);
      const now = Date.now();
      await sleep(now < ${CREATED_AT + 60_000} ? "2m" : "3m");`;
    const asked = [0, 1].map((isLate) => {
      const heap = TestHeap.running(body);
      const [hook, work] = heap.ids();
      heap.completes(work as string, null, CREATED_AT + 100);
      const first = isLate === 0 ? heap.report().asked : [];
      heap.receives(hook as string, null, CREATED_AT + 61_000);
      return [...first, ...heap.report().asked];
    });
    expect(asked[0]).toEqual([expect.objectContaining({ k: "wait", at: CREATED_AT + 120_100 })]);
    expect(asked[1]).toEqual(asked[0]);
  });

  it("is read by every way to the time", () => {
    const heap = TestHeap.running(`
      await step("a");
      return [Date.now(), new Date().getTime(), +new Date(Date()), performance.now(),
        performance.timeOrigin, new Date().constructor === Date, Date.prototype.constructor === Date,
        new Date(5).getTimezoneOffset(), new Date(2020, 0, 1).toISOString(),
        new (class extends Date {})().getTime(), Reflect.construct(Date, []).getTime(),
        Date.length, Date.name, Date.UTC(2020, 0), Date.parse("1970-01-01T00:00:01Z")];`);
    heap.completes(heap.steps()[0]?.id as string, null, CREATED_AT + 7000);
    const now = CREATED_AT + 7000;
    expect(heap.outcome().value).toEqual([
      now, now, now, 7000, CREATED_AT, true, true, 0, "2020-01-01T00:00:00.000Z", now, now,
      7, "Date", Date.UTC(2020, 0), 1000,
    ]); // prettier-ignore
  });
});

describe("order of resumption", () => {
  it.each(HOPS)("a buffered payload and a later step give the same ids after %i awaits", (hops) => {
    const body = `
      const hook = createHook({ token: "t" });
      const order = [];
      const viaHook = (async () => {
        await step("first"); const value = await hook; order.push("hook"); return step("after-hook", value);
      })();
      const viaStep = (async () => {
        await step("second"); for (let i = 0; i < ${hops}; i++) await null;
        order.push("step"); return step("after-step");
      })();
      await Promise.all([viaHook, viaStep]); return order;`;
    const heap = TestHeap.running(body);
    const [hook, first, second] = heap.ids();
    heap.receives(hook as string, "buffered");
    heap.completes(first as string);
    heap.completes(second as string);
    expect(heap.steps().map(({ name, id }) => [name, id])).toEqual(afterBoth);
  });

  const afterBoth = (() => {
    const heap = TestHeap.running(`createHook({ token: "t" }); step("first"); step("second");
      step("after-hook"); step("after-step");`);
    return heap
      .report()
      .asked.slice(3)
      .map((ask) => [`name` in ask ? ask.name : "", ask.id]);
  })();

  it("follows the slots of a step's and a wait's events, not the order of the awaits", () => {
    for (const isStepFirst of [true, false]) {
      const heap = TestHeap.running(`
        const log = [];
        const a = sleep("1m").then(() => log.push("wait"));
        const b = step("b").then(() => log.push("step"));
        await Promise.all([b, a]); return log;`);
      const [wait, b] = heap.ids();
      if (isStepFirst) heap.completes(b as string);
      heap.event("wait_completed", wait as string);
      if (!isStepFirst) heap.completes(b as string);
      expect(heap.outcome().value).toEqual(isStepFirst ? ["step", "wait"] : ["wait", "step"]);
    }
  });
});

describe("randomness", () => {
  const draws = `
    const bytes = crypto.getRandomValues(new Uint8Array(40));
    return [Math.random(), Math.random(), crypto.randomUUID(), [...bytes], createHook().token];`;

  it("is the same for one seed, and other for another in every value", () => {
    const first = TestHeap.running(draws).outcome().value as unknown[];
    expect(TestHeap.running(draws).outcome().value).toEqual(first);
    const other = TestHeap.running(draws, { seed: "08".repeat(32) }).outcome().value as unknown[];
    first.forEach((value, i) => expect(other[i]).not.toEqual(value));
  });

  it("comes from streams of their own: drawing one changes nothing of the others", () => {
    const tokens = (before: string) =>
      TestHeap.running(`${before}; return [createHook().token, crypto.randomUUID()]`).outcome()
        .value;
    const [token, uuid] = tokens("") as string[];
    expect(tokens("for (let i = 0; i < 9; i++) Math.random()")).toEqual([token, uuid]);
    expect(tokens("step('a'); sleep(1)")).toEqual([token, uuid]);
    expect((tokens("crypto.randomUUID()") as string[])[0]).toBe(token);
    expect((tokens("createHook()") as string[])[1]).toBe(uuid);
  });

  it("is within [0, 1), spread, and cannot be replaced", () => {
    const heap = TestHeap.running(`
      const all = Array.from({ length: 2000 }, () => Math.random());
      let threw = 0;
      try { "use strict"; Math.random = () => 4; } catch { threw++ }
      try { Object.defineProperty(Math, "random", { value: () => 4 }) } catch { threw++ }
      return { min: Math.min(...all), max: Math.max(...all),
        mean: all.reduce((a, b) => a + b) / all.length, threw, still: Math.random() < 1 };`);
    const value = heap.outcome().value as Record<string, number>;
    expect(value["min"]).toBeGreaterThanOrEqual(0);
    expect(value["max"]).toBeLessThan(1);
    expect(Math.abs((value["mean"] as number) - 0.5)).toBeLessThan(0.05);
    expect(value).toMatchObject({ still: true });
  });

  it("has tokens of 160 bits", () => {
    const heap = TestHeap.running(`return Array.from({ length: 50 }, () => createHook().token)`);
    const tokens = heap.outcome().value as string[];
    for (const token of tokens) expect(token).toMatch(/^[0-9a-f]{40}$/);
    expect(new Set(tokens).size).toBe(50);
  });
});

describe("before there is a run", () => {
  it.each([
    ["Date.now()", "clock_read"],
    ["new Date()", "clock_read"],
    ["Date()", "clock_read"],
    ["performance.now()", "clock_read"],
    ["Math.random()", "random_read"],
    ["crypto.randomUUID()", "random_read"],
    ["crypto.getRandomValues(new Uint8Array(2))", "random_read"],
  ])("%s tells the host, with the place in the bundle", (code, name) => {
    const heap = new TestHeap(`const early = ${code};`);
    expect(heap.hostCalls).toEqual([expect.stringMatching(`^${name} at bundle\\.js:1`)]);
  });

  it("a date of a given time reads no clock, and a quiet bundle tells nothing", () => {
    const heap = new TestHeap(`const date = new Date(5); Date.UTC(2020, 1); new Map(); `);
    expect(heap.hostCalls).toEqual([]);
  });

  it("a bundle that reads at load draws what its seed gives once it is evaluated after `init`", () => {
    const values = [SEED, "09".repeat(32)].map((seed) => {
      const heap = new TestHeap("");
      heap.init({ seed });
      heap.instance.run("globalThis.early = [Math.random(), Date.now()]", "bundle.js");
      heap.instance.run(
        `globalThis.__private_workflows.set("workflow//./test//main",
        async () => globalThis.early)`,
        "bundle.js",
      );
      heap.begin([]);
      return heap.outcome().value as number[];
    });
    expect(values[0]?.[0]).not.toBe(values[1]?.[0]);
    expect(values[0]?.[1]).toBe(CREATED_AT);
  });

  it("steps, sleeps and hooks are refused while the bundle loads", () => {
    const heap = new TestHeap(`
      const { sleep, createHook } = globalThis[Symbol.for("baton.guest")].workflow;
      const names = [];
      for (const call of [() => sleep(1), () => createHook({ token: "t" }),
        globalThis[Symbol.for("WORKFLOW_USE_STEP")]("step//./a//b")]) {
        try { Promise.resolve(call()).catch((error) => names.push(error.name)) }
        catch (error) { names.push(error.name) }
      }
      globalThis.__private_workflows.set("workflow//./test//main", async () => names);`);
    heap.init();
    heap.begin([]);
    const names = heap.outcome().value as string[];
    expect(names.filter((name) => name === "NotAvailableError")).toHaveLength(3);
  });
});
