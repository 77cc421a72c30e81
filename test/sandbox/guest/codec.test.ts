import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { errorPayload, textOfPayload } from "../../../engine/payload.ts";
import {
  OpaqueValue,
  decodePayload,
  decodeText,
  encodePayload,
  encodeText,
} from "../../../sandbox/host-codec.ts";
import { TestHeap } from "./heap.ts";

/** The value after a trip host → heap → step argument → host. */
function throughHeap(value: unknown): unknown {
  const heap = TestHeap.running(`await step("s", input)`, {
    args: [value],
    payloadBytesMax: 1 << 22,
  });
  const [asked] = heap.steps() as { args: unknown[] }[];
  return asked?.args[0];
}

const dates = fc.date({ noInvalidDate: false });
const leaf = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.double(),
  fc.integer(),
  fc.boolean(),
  fc.bigInt(),
  dates,
  fc.uint8Array({ maxLength: 20 }),
  fc.float64Array({ maxLength: 4 }),
  fc.constantFrom(null, undefined, -0, NaN, Infinity, -Infinity),
);
const key = fc.string().filter((text) => text !== "__proto__");
const { value: anyValue } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small" },
    leaf,
    fc.array(tie("value"), { maxLength: 5 }),
    fc.dictionary(key, tie("value"), { maxKeys: 5, noNullPrototype: false }),
    fc.array(fc.tuple(leaf, tie("value")), { maxLength: 4 }).map((pairs) => new Map(pairs)),
    fc.array(leaf, { maxLength: 4 }).map((items) => new Set(items)),
  ),
}));

describe("values", () => {
  it("any come back equal on the host", () => {
    fc.assert(
      fc.property(anyValue, (value) => {
        expect(decodeText(encodeText(value))).toStrictEqual(value);
      }),
      { numRuns: 500 },
    );
  });

  it("any come back equal through a heap, and its text is the host's", () => {
    const many = fc.sample(anyValue, { numRuns: 300, seed: 7 });
    const heap = TestHeap.running(`await step("s", ...input)`, {
      args: [many],
      payloadBytesMax: 1 << 24,
    });
    const [ask] = heap.report().asked;
    const text = (ask as { input: string }).input;
    const { args } = decodeText(text) as { args: unknown[] };
    args.forEach((value, i) => expect(value).toStrictEqual(many[i]));
    expect(encodeText({ args: many })).toBe(text);
  });

  it("identity and cycles are kept", () => {
    const shared = { n: 1 };
    const cycle: Record<string, unknown> = { shared, again: shared, map: new Map() };
    cycle["self"] = cycle;
    (cycle["map"] as Map<unknown, unknown>).set("self", cycle);
    const error = new Error("x");
    error.cause = error;
    const [back, failure] = throughHeap([cycle, error]) as [typeof cycle, Error];
    expect(back["self"]).toBe(back);
    expect(back["again"]).toBe(back["shared"]);
    expect((back["map"] as Map<unknown, unknown>).get("self")).toBe(back);
    expect(failure.cause).toBe(failure);
  });

  it.each<[string, unknown]>([
    ["a regular expression", /a\/(?<x>b)/giu],
    ["a sparse array", Object.assign([], { 3: 1, length: 1_000_000_000 })],
    ["a hole", [1, , 3]], // eslint-disable-line no-sparse-arrays
    ["lone surrogates and NUL", "\ud800 \0 \u2028 </script>"],
    ["an object without a prototype", Object.assign(Object.create(null), { a: 1 })],
    ["a buffer", new Uint8Array([1, 2, 3]).buffer],
    ["64-bit arrays", new BigInt64Array([1n, -1n])],
    ["a URL", new URL("https://a.example/x?y#z")],
    ["search parameters", new URLSearchParams("a=1&a=2")],
    ["no search parameters", new URLSearchParams()],
    ["an invalid date", new Date(NaN)],
    ["a text like a sentinel", "-1"],
    ["a number like a sentinel", -1],
  ])("%s comes back", (_, value) => {
    expect(throughHeap(value)).toStrictEqual(value);
  });

  it("headers, requests and responses keep what they carry", () => {
    const heap = TestHeap.running(`
      const response = Response.json({ a: 1 }, { status: 201, headers: { "x-a": "b" } });
      const request = new Request("https://a.example/", { method: "POST", body: "text" });
      const [one, two] = await step("s", response, request);
      return [one.status, one.headers.get("x-a"), await one.json(), two.method, await two.text(),
        new Headers({ b: "2", a: "1" })];`);
    const [ask] = heap.report().asked;
    const args = (decodeText((ask as { input: string }).input) as { args: unknown[] }).args;
    expect(args[0]).toBeInstanceOf(OpaqueValue);
    heap.completes(ask?.id as string, args);
    const { value } = heap.outcome();
    expect((value as unknown[]).slice(0, 5)).toEqual([201, "b", { a: 1 }, "POST", "text"]);
    expect([...((value as unknown[])[5] as Headers)]).toEqual([
      ["a", "1"],
      ["b", "2"],
    ]);
  });

  it("a view carries its own bytes alone, not the pool around them", () => {
    const pool = Buffer.from("secret of another tenant");
    const text = encodeText([Buffer.from("x"), pool.subarray(1, 2)]);
    expect(text.length).toBeLessThan(80);
    expect(decodeText(text)).toEqual([new Uint8Array([120]), new Uint8Array([101])]);
  });
});

describe("errors", () => {
  it("keep name, message, causes, declared fields and class through the trip", () => {
    const heap = TestHeap.running(`
      class PayError extends TypeError { constructor(m, o) { super(m, o); this.name = "PayError";
        this.code = 7; this.retryAfter = "5m"; this.detail = { at: new Date(5) }; } }
      const cause = new AggregateError([new RangeError("inner"), "text"], "many");
      try { await step("s", new PayError("no", { cause })) } catch (e) {
        return [e instanceof TypeError, e.name, e.message, e.code, e.detail, e.cause instanceof AggregateError,
          e.cause.errors[0] instanceof RangeError, e.cause.errors[1], e.stack.includes("baton:guest")];
      }`);
    const [ask] = heap.report().asked;
    const [error] = (decodeText((ask as { input: string }).input) as { args: unknown[] }).args;
    expect(error).toBeInstanceOf(TypeError);
    heap.fails(ask?.id as string, error);
    expect(heap.outcome().value).toEqual([
      true, "PayError", "no", 7, { at: new Date(5) }, true, true, "text", false,
    ]); // prettier-ignore
  });

  it("are instances of the library's classes again, by name", () => {
    const heap = TestHeap.running(`
      const seen = [];
      for (const name of ["FatalError", "RetryableError", "SerializationError", "HookNotFoundError"])
        try { await step(name) } catch (e) {
          seen.push([name, e instanceof lib.errors[name], lib.errors[name].is(e), e.retryAfter]) }
      return seen;`);
    for (const name of [
      "FatalError",
      "RetryableError",
      "SerializationError",
      "HookNotFoundError",
    ]) {
      const [asked] = heap.steps();
      const payload = textOfPayload(errorPayload(name, "from the engine"));
      heap.event("step_failed", asked?.id as string, { payload });
    }
    expect(heap.outcome().value).toEqual([
      ["FatalError", true, true, undefined],
      ["RetryableError", true, true, undefined],
      ["SerializationError", true, true, undefined],
      ["HookNotFoundError", true, true, undefined],
    ]);
  });

  it("DOMException is an error with its name and code", () => {
    const heap = TestHeap.running(`
      try { await step("s", new DOMException("stop", "AbortError")) } catch (e) {
        return [e instanceof DOMException, e instanceof Error, Error.isError(e), e.name, e.code, e.message];
      }`);
    const [ask] = heap.report().asked;
    const [error] = (decodeText((ask as { input: string }).input) as { args: unknown[] }).args;
    expect(error).toBeInstanceOf(DOMException);
    heap.fails(ask?.id as string, error);
    expect(heap.outcome().value).toEqual([true, true, true, "AbortError", 20, "stop"]);
  });

  it("a field that cannot be encoded becomes a text, and the error still crosses", () => {
    const heap = TestHeap.running(
      `const e = new Error("x"); e.socket = () => 1; e.code = 5; throw e`,
    );
    expect(heap.outcome().value).toMatchObject({
      message: "x",
      code: 5,
      socket: expect.stringContaining("cannot be serialized"),
    });
  });
});

describe("classes and functions", () => {
  const POINT = `
    class Point { constructor(x) { this.x = x } double() { return this.x * 2 } }
    Point[Symbol.for("workflow-serialize")] = (p) => ({ x: p.x, inner: p.inner });
    Point[Symbol.for("workflow-deserialize")] = (d) => Object.assign(new Point(d.x), { inner: d.inner });
    Object.defineProperty(Point, "classId", { value: "class//./a//Point" });
    globalThis[Symbol.for("workflow-class-registry")].set("class//./a//Point", Point);`;

  it("registered instances come back as instances, nested ones too, and classes as themselves", () => {
    const heap = TestHeap.running(`${POINT}
      const outer = new Point(1); outer.inner = new Point(2);
      const [back, Class] = await step("s", outer, Point);
      return [back instanceof Point, back.double(), back.inner.double(), Class === Point];`);
    const [ask] = heap.report().asked;
    const args = (decodeText((ask as { input: string }).input) as { args: unknown[] }).args;
    expect(args[0]).toBeInstanceOf(OpaqueValue);
    heap.completes(ask?.id as string, args);
    expect(heap.outcome().value).toEqual([true, 2, 4, true]);
  });

  it("the host calls a class only if trusted code has registered it", () => {
    class Money {
      static classId = "class//./a//Money";
      readonly cents: number;
      constructor(cents: number) {
        this.cents = cents;
      }
    }
    Object.assign(Money, {
      [Symbol.for("workflow-serialize")]: (money: Money) => money.cents,
      [Symbol.for("workflow-deserialize")]: (cents: number) => new Money(cents),
    });
    const classes = new Map([[Money.classId, Money]]);
    const payload = encodePayload([new Money(5)], { classes });
    expect(decodePayload(payload, { classes })).toEqual([new Money(5)]);
    const [opaque] = decodePayload(payload) as unknown[];
    expect(opaque).toBeInstanceOf(OpaqueValue);
    expect(encodePayload([opaque])).toEqual(payload);
    expect(() => encodePayload(new Money(5))).toThrow(/serialization methods/);
  });

  it("step functions keep what they are bound to and what they captured", () => {
    const heap = TestHeap.running(`
      const fn = useStep("step//./a//add", () => ({ base: 10 })).bind(null, 1);
      const back = await step("s", fn);
      await back(2);`);
    const [ask] = heap.report().asked;
    const { args } = decodeText((ask as { input: string }).input) as { args: OpaqueValue[] };
    expect(args[0]?.data).toMatchObject({
      stepId: "step//./a//add",
      closureVars: { base: 10 },
      boundArgs: [1],
    });
    heap.completes(ask?.id as string, args[0]);
    const [second] = heap.report().asked;
    expect(second).toMatchObject({ name: "step//./a//add" });
    expect(decodeText((second as { input: string }).input)).toEqual({
      args: [1, 2],
      closureVars: { base: 10 },
    });
  });

  it("`this` goes along only where it is a registered class or an instance of one", () => {
    const heap = TestHeap.running(`${POINT}
      const method = useStep("step//./a//Point#work");
      Point.prototype.work = method; Point.make = method;
      const object = { method };
      new Point(3).work(1); Point.make(2); object.method(3); method.call(globalThis, 4); method(5);
      method.apply(new Point(6), [7]);`);
    const inputs = heap
      .report()
      .asked.map(
        (ask) => decodeText((ask as { input: string }).input) as { thisVal?: OpaqueValue },
      );
    expect(inputs.map(({ thisVal }) => thisVal?.tag)).toEqual([
      "Instance",
      "Class",
      undefined,
      undefined,
      undefined,
      "Instance",
    ]);
  });
});

describe("limits", () => {
  it("a payload just at its limit passes, and one byte more fails its step by name", () => {
    const size = (value: string) => encodePayload({ args: [value] }).length;
    const fits = "x".repeat(2000 - size(""));
    const heap = TestHeap.running(`await Promise.all([step("a", input), step("b", input + "x")])`, {
      args: [fits],
      payloadBytesMax: size(fits),
    });
    const [a, b] = heap.report().asked;
    expect(a).toHaveProperty("input");
    const error = decodeText((b as { error: string }).error) as Error;
    expect(error).toMatchObject({ name: "SerializationError", code: "PAYLOAD_LIMIT_EXCEEDED" });
    expect(error.message).toContain("2000 bytes");
  });

  it("the limit counts UTF-8 bytes", () => {
    const bytesMax = encodePayload("ä€😀".repeat(50)).length;
    expect(encodeText("ä€😀".repeat(50), { bytesMax })).toBeDefined();
    expect(() => encodeText("ä€😀".repeat(50), { bytesMax: bytesMax - 1 })).toThrow(/larger/);
  });

  it.each([
    ["a text in 1,500 places", `const a = "x".repeat(1e5); return Array(1500).fill(a)`, true],
    ["1,500 texts", `return Array.from({ length: 1500 }, (_, i) => "x".repeat(1000) + i)`, false],
    ["an array of a huge length", `const a = []; a.length = 4e9; return a`, true],
    ["bytes", `return new Uint8Array(200000)`, false],
    [
      "a list linked 5,000 times",
      `let n = null; for (let i = 0; i < 5000; i++) n = { n }; return n`,
      false,
    ],
  ])("%s costs what it is", (_, body, fits) => {
    const heap = TestHeap.running(body);
    const { done } = heap.report();
    expect(done?.ok).toBe(fits);
    expect((done?.text.length ?? 0) < 140_000).toBe(true);
  });

  it("the host refuses to read a payload that is too large, or none of its form", () => {
    expect(() => decodePayload(encodePayload("x".repeat(100)), { bytesMax: 50 })).toThrow(/larger/);
    expect(() => decodePayload(new TextEncoder().encode("zstd[]"))).toThrow(/devl/);
  });
});

describe("hostile texts", () => {
  const BAD = [
    "", "{", "[]", "{}", "null", "true", '"x"', "5", "-2", "-7", "-99", "[[1]]", "[[-9]]",
    '[{"__proto__":1},1]', '[["null","__proto__",1],1]', '[["Nope",1],{}]', '[["Instance",1],{"classId":2},"x"]',
    '[["Map",1],5]', '[["Map",1],[2],3]', '[["Set",9]]', '[["Date",1],{}]', '[["BigInt",1],"1e9"]',
    '[["BigInt",1],""]', '[["Uint8Array",1],"%%%"]', '[["Uint8Array",1],"abc"]', '[["Error",1],[]]',
    '[["RegExp",1],{"source":2},"("]', '[["Object",1],{}]', '[[-7,-1]]', '[[-7,4294967296]]', '[[-7,2,5,1],1]',
    '[["BigUint64Array",1],"AQI="]', '[["StepFunction",1],{}]', '[["WritableStream",1],5]', '[["AbortSignal",1],{}]',
    '[["Response",1],{"status":2},9999]', '[["Request",1],{}]', '[["Class",1],{"classId":2},"class//x"]',
    '[["Instance",0]]', '[["Object",0]]',
  ]; // prettier-ignore

  it.each(BAD)("%s is refused, catchably", (text) => {
    const heap = TestHeap.running(
      `try { await step("s"); return "taken" } catch (e) { return e.name }`,
    );
    heap.event("step_completed", heap.steps()[0]?.id as string, { payload: text });
    const isTaken = text === ""; // an event without a payload brings undefined
    if (isTaken) expect(heap.outcome().value).toBe("taken");
    else
      expect(["SerializationError", "TypeError", "RangeError", "SyntaxError"]).toContain(
        heap.outcome().value,
      );
  });

  it("no mutation of a valid text crashes the reader or pollutes a prototype", () => {
    const valid = encodeText([{ a: [1, new Map([["k", new Set([1n])]])] }, new Error("x"), /x/g]);
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(
            fc.nat(valid.length - 1),
            fc.constantFrom(...Array.from('0123456789-[]{}",:aE')),
          ),
          {
            minLength: 1,
            maxLength: 6,
          },
        ),
        (edits) => {
          const chars = Array.from(valid);
          for (const [at, char] of edits) chars[at] = char;
          try {
            decodeText(chars.join(""));
          } catch (error) {
            expect(error).toBeInstanceOf(Error);
          }
          expect(Object.keys(Object.prototype)).toEqual([]);
        },
      ),
      { numRuns: 3000 },
    );
  });

  it("a value nested 100,000 deep is read without a stack", () => {
    const depth = 100_000;
    const table = Array.from({ length: depth }, (_, i) => (i + 1 < depth ? `[${i + 1}]` : "1"));
    expect(decodeText(`[${table.join(",")}]`)).toBeInstanceOf(Array);
  });
});
