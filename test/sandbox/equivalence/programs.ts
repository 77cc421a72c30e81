/** Workflows that keep what a heap can hold across passes: each form of state, each way to wait. */
import { tenantSource } from "../tenant-source.ts";

function body(code: string, top?: string): string {
  return tenantSource(code, top);
}

export const PROGRAMS: Readonly<Record<string, string>> = {
  closures: body(`
    const counters = [1, 2, 3].map((start) => { let n = start; return () => n++; });
    let log = [];
    for (const next of counters) { next(); log.push(await step("count")(next())); log.push(next()); }
    return log;`),
  "a loop of steps": body(`
    let sum = 0;
    for (let i = 0; i < 12; i++) sum += await step("add")(i, sum);
    return sum;`),
  generators: body(`
    function* walk(tree) { if (tree) { yield* walk(tree.left); yield tree.value; yield* walk(tree.right); } }
    const tree = { value: 2, left: { value: 1 }, right: { value: 3 } };
    const it = walk(tree), seen = [];
    for (let r = it.next(); !r.done; r = it.next()) seen.push([r.value, await step("visit")(r.value)]);
    return seen;`),
  "async generators": body(`
    async function* pages() { for (let page = 0; page < 4; page++) { try { yield await step("page")(page); } finally { await step("close")(page); } } }
    const all = [];
    for await (const page of pages()) { all.push(page); if (all.length === 3) break; }
    return all;`),
  races: body(`
    const first = await Promise.race([step("slow")(1), sleep(5000).then(() => "slept"), step("other")(2)]);
    const second = await Promise.race([sleep(10), sleep(20)]);
    return [first, second];`),
  "a race with a timeout that loses later": body(`
    let late = "none";
    const work = step("work")(1).then((v) => { late = v; return v; });
    const winner = await Promise.race([work, sleep(1000).then(() => "timeout")]);
    await step("after")(winner);
    return [winner, late, await work];`),
  allSettled: body(`
    const results = await Promise.allSettled([step("a")(1), Promise.reject(new Error("no")), step("b")(2), sleep(3)]);
    return results.map((r) => [r.status, r.value, r.reason && r.reason.message]);`),
  any: body(`
    return await Promise.any([Promise.reject(1), step("a")(1), step("b")(2)]);`),
  "private fields": body(`
    class Account {
      #balance = 10; static #made = 0; static made() { return Account.#made; }
      constructor() { Account.#made++; }
      get balance() { return this.#balance; }
      async #move(by) { this.#balance += await step("move")(by, this.#balance); }
      async pay() { await this.#move(1); await this.#move(2); return #balance in this; }
    }
    const account = new Account(); new Account();
    return [await account.pay(), account.balance, Account.made()];`),
  "maps and sets": body(`
    const map = new Map([["a", new Set([1])]]), weak = new WeakMap(), key = {};
    weak.set(key, "kept");
    const order = map.entries();
    map.get("a").add(await step("x")(map));
    map.set("b", new Set([await step("y")(weak.get(key))]));
    order.next();
    await step("z")(1);
    return [map, weak.get(key), order.next().value, weak.has({})];`),
  "typed arrays": body(`
    const buffer = new ArrayBuffer(16), bytes = new Uint8Array(buffer, 4, 8), floats = new Float64Array(2), view = new DataView(buffer);
    bytes.set([1, 2, 3]);
    floats[0] = 0.1 + 0.2;
    view.setInt16(6, await step("number")(bytes));
    await step("again")(bytes.subarray(1, 3));
    return [bytes, floats, view.getInt16(6), new BigUint64Array([2n ** 63n])];`),
  bigints: body(`
    let x = 2n ** 200n;
    for (let i = 0; i < 3; i++) x = x * 3n + BigInt(await step("grow")(x));
    return [x, x.toString(36), BigInt.asIntN(64, x)];`),
  dates: body(`
    const started = new Date(), epoch = new Date(0);
    await sleep(86400000);
    const later = new Date();
    await step("when")(later);
    return [started, later, later - started, epoch.getTimezoneOffset(), later.toString(), new Date(2020, 6, 1).getTime(), Date.now() >= +later];`),
  "regular expressions": body(`
    const word = /(?<w>\\w+)/g, sticky = /a/y, text = "one two three";
    const found = [];
    for (let m = word.exec(text); m; m = word.exec(text)) found.push([m.groups.w, m.index, await step("word")(m[0])]);
    sticky.test("aa");
    await step("rest")(1);
    return [found, sticky.lastIndex, sticky.test("aa"), text.replace(/t/g, (m, i) => i)];`),
  "iterators over hooks": body(`
    const h = hook({ token: "orders" });
    const seen = [];
    for await (const payload of h) { seen.push(payload, await step("handle")(payload)); if (seen.length >= 6) break; }
    h.dispose();
    return seen;`),
  "a hook awaited and raced": body(`
    const h = hook({ token: "approval", metadata: { who: "boss" } });
    const first = await Promise.race([h, sleep(60000).then(() => "nobody")]);
    const second = await h;
    h.dispose();
    await step("done")(first);
    return [first, second, h.token];`),
  "deep promise chains": body(`
    let chain = step("root")(0);
    for (let i = 0; i < 300; i++) chain = chain.then((v) => v + 1);
    const nested = (async function nest(n) { return n === 0 ? step("leaf")(n) : (await nest(n - 1)) + 1; })(60);
    return [await chain, await nested];`),
  "joins of 1,000": body(`
    const all = await Promise.all(Array.from({ length: 1000 }, (_, i) => step("wide")(i)));
    return [all.length, all.reduce((a, b) => a + b, 0)];`),
  "errors with causes": body(`
    class PayError extends Error { constructor(m, o) { super(m, o); this.name = "PayError"; this.code = 42; } }
    const caught = [];
    try { try { await step("a")(1); throw new TypeError("inner"); } catch (cause) { throw new PayError("outer", { cause }); } }
    catch (e) { await step("b")(e.message); caught.push(e.name, e.code, e.cause instanceof TypeError, e.cause.message); }
    throw new PayError("last " + caught.join(), { cause: new AggregateError([new RangeError("r"), 5], "many") });`),
  "try, catch and finally across waits": body(`
    const trail = [];
    async function risky(n) { try { trail.push("in" + n); await sleep(n * 10); if (n % 2) throw n; return n; } catch (e) { await step("undo")(e); return -e; } finally { trail.push(await step("last")(n)); } }
    return [await risky(1), await risky(2), await Promise.all([risky(3), risky(4)]), trail];`),
  "proxies and symbols": body(`
    const tag = Symbol("tag"), shared = Symbol.for("shared"), reads = [];
    const target = { [tag]: 1, [shared]: 2, plain: 3 };
    const proxy = new Proxy(target, { get(t, k) { reads.push(String(k)); return Reflect.get(t, k); } });
    const before = proxy[tag] + proxy[shared];
    await step("pause")(before);
    return [proxy[tag], proxy.plain, Symbol.for("shared") === shared, reads, tag.description];`),
  "randomness and ids": body(
    `
    const draws = [Math.random(), crypto.randomUUID(), Array.from(crypto.getRandomValues(new Uint8Array(4)))];
    await step("draws")(draws);
    draws.push(Math.random());
    await sleep(5);
    draws.push(crypto.randomUUID(), Math.random());
    return draws;`,
    ``,
  ),
  "getters, frozen objects and inheritance": body(`
    class Base { static who = "base"; get size() { return this.items.length; } constructor() { this.items = []; } add(x) { this.items.push(x); return this; } }
    class Child extends Base { add(x) { return super.add(x * 2); } get [Symbol.toStringTag]() { return "Child"; } }
    const child = Object.freeze(new Child().add(1));
    child.items.push(await step("more")(child.size));
    await step("again")(String(child));
    return [child.items, child.size, Object.isFrozen(child), Child.who, child instanceof Base];`),
  "labels, switches and destructuring": body(`
    const out = [];
    outer: for (let i = 0; i < 4; i++) { for (let j = 0; j < 4; j++) {
      switch ((i + j) % 3) { case 0: continue; case 1: out.push(await step("one")({ i, j })); break; default: if (i > 1) continue outer; }
    } }
    const [{ a = 5, ...rest } = { b: 1 }, ...more] = [undefined, ...out];
    return { a, rest, more };`),
  "a mutex and a queue made of promises": body(`
    let tail = Promise.resolve(); const order = [];
    const locked = (f) => (tail = tail.then(f, f));
    await Promise.all([3, 1, 2].map((n) => locked(async () => { order.push("in" + n); await step("held")(n); order.push("out" + n); })));
    return order;`),
  "console and attributes": body(`
    console.log("start", { a: [1, new Map([[1, 2]])] });
    await globalThis[Symbol.for("WORKFLOW_SET_ATTRIBUTES")]({ stage: "one", other: "x" });
    await step("work")(1);
    console.error(new Error("shown"));
    await globalThis[Symbol.for("WORKFLOW_SET_ATTRIBUTES")]({ other: undefined });
    return "set";`),
  "abandoned work": body(`
    const forgotten = step("never awaited")(1); sleep(100000); hook({ token: "unused" });
    const lazy = (async () => { await step("background")(2); await sleep(1); await step("more")(3); })();
    await step("main")(4);
    await lazy;
    return "left";`),
  "state of the module": body(
    `
    remember("a"); await step("one")(seen.size); remember("b"); await sleep(1); remember("a");
    return [[...seen], calls, registry.get("k")()];`,
    `const seen = new Set(); let calls = 0; const registry = new Map([["k", () => calls]]);
    function remember(x) { calls++; seen.add(x); }`,
  ),
};
