import { afterEach, describe, expect, it } from "vitest";
import { createTestBaton } from "../../engine/testing.ts";
import type { TestBaton } from "../../engine/testing.ts";
import { buildBundle } from "../../tenants/bundles/build.ts";
import type { BuiltBundle } from "../../tenants/bundles/build.ts";
import { projectOf } from "./bundles/project.ts";

let last: TestBaton | null = null;
afterEach(async () => {
  await last?.close();
  last = null;
});

async function opened(): Promise<TestBaton> {
  last = await createTestBaton();
  return last;
}

const built = (source: string) =>
  buildBundle({ projectRoot: projectOf({ "src/order.ts": source }), entries: ["src"] });

/** A program that says which version of it ran, before and after it slept. */
const version = (name: string): Promise<BuiltBundle> =>
  built(`import { sleep } from "workflow";
    async function say() { "use step"; return "${name}"; }
    export async function order() {
      "use workflow";
      const before = await say();
      await sleep("1d");
      return [before, "${name}", await say()];
    }`);

const DAY_MS = 86_400_000;

describe("aliases", () => {
  it("name the bundle of starts to come, while a run stays on its own for life", async () => {
    const testing = await opened();
    const { baton } = testing;
    const [one, two] = [await version("one"), await version("two")];
    await baton.bundles.deploy(one);
    const first = await baton.start("order", []);
    await testing.waitForSleep(first);
    await baton.bundles.deploy(two);
    const second = await baton.start("order", []);
    await testing.waitForSleep(second);
    // To roll back is to move the alias; what runs goes on as it is.
    await baton.bundles.setAlias("live", one.hash);
    const third = await baton.start("order", []);
    await testing.waitForSleep(third);
    await testing.advance(DAY_MS);
    expect(await first.returnValue()).toEqual(["one", "one", "one"]);
    expect(await second.returnValue()).toEqual(["two", "two", "two"]);
    expect(await third.returnValue()).toEqual(["one", "one", "one"]);
  });

  it("are many, each start takes the one it names, or a hash", async () => {
    const { baton } = await opened();
    const [one, two] = [await version("one"), await version("two")];
    await baton.bundles.deploy(one);
    await baton.bundles.deploy(two, { alias: "beta.2" });
    for (const [bundle, hash] of [
      ["live", one.hash],
      ["beta.2", two.hash],
      [two.hash, two.hash],
    ]) {
      const run = await baton.start("order", [], { bundle: bundle ?? "" });
      expect((await run.row()).deploymentId).toBe(hash);
    }
    const { data } = await baton.bundles.list();
    expect(Object.fromEntries(data.map((kept) => [kept.hash, kept.aliases]))).toEqual({
      [one.hash]: ["live"],
      [two.hash]: ["beta.2"],
    });
  });

  it("are short names, and name only what the tenant has", async () => {
    const { baton } = await opened();
    const bundle = await version("one");
    const { hash } = await baton.bundles.deploy(bundle, { alias: null });
    expect(await baton.bundles.aliases()).toEqual([]);
    for (const alias of ["", "Live", "a b", "a/b", "a".repeat(64), hash]) {
      await expect(baton.bundles.setAlias(alias, hash)).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
        details: { field: "alias" },
      });
      await expect(baton.bundles.deploy(bundle, { alias })).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
      });
    }
    await expect(baton.bundles.setAlias("live", "a".repeat(64))).rejects.toMatchObject({
      code: "BUNDLE_NOT_FOUND",
    });
    await expect(baton.start("order", [])).rejects.toMatchObject({ code: "BUNDLE_NOT_FOUND" });
  });

  it("and bundles of one tenant are not another's", async () => {
    const { baton } = await opened();
    const { hash } = await baton.bundles.deploy(await version("one"));
    await baton.tenants.create("zeta");
    const of = { tenantId: "zeta" };
    expect((await baton.bundles.list(of)).data).toEqual([]);
    expect(await baton.bundles.delete(hash, of)).toBe(false);
    await expect(baton.start("order", [], of)).rejects.toMatchObject({ code: "BUNDLE_NOT_FOUND" });
    await expect(baton.bundles.setAlias("live", hash, of)).rejects.toMatchObject({
      code: "BUNDLE_NOT_FOUND",
    });
    expect((await baton.bundles.list()).data).toHaveLength(1);
  });
});

describe("a bundle", () => {
  it("is deleted once neither an alias names it nor an open run is on it", async () => {
    const testing = await opened();
    const { baton } = testing;
    const [one, two] = [await version("one"), await version("two")];
    await baton.bundles.deploy(one);
    const run = await baton.start("order", []);
    await testing.waitForSleep(run);
    const refused = { code: "BUNDLE_IN_USE", status: 409, details: { field: "hash" } };
    await expect(baton.bundles.delete(one.hash)).rejects.toMatchObject(refused);
    await baton.bundles.deploy(two);
    await expect(baton.bundles.delete(one.hash)).rejects.toMatchObject(refused);
    await testing.advance(DAY_MS);
    expect(await run.returnValue()).toEqual(["one", "one", "one"]);
    expect(await baton.bundles.delete(one.hash)).toBe(true);
    expect(await baton.bundles.delete(one.hash)).toBe(false);
    await expect(baton.start("order", [], { bundle: one.hash })).rejects.toMatchObject({
      code: "BUNDLE_NOT_FOUND",
    });
    // What its run came to can still be read.
    expect(await run.returnValue()).toEqual(["one", "one", "one"]);
  });

  it("that reads the clock or chance at its top level is evaluated by each run, and says where", async () => {
    const testing = await opened();
    const { baton } = testing;
    const { sharesImage, notes } = await baton.bundles.deploy(
      await built(`import { sleep } from "workflow";

const loadedAt = Date.now();
const drawn: number[] = [
  Math.random(),
];
export async function order() {
  "use workflow";
  const before = [loadedAt, drawn[0]];
  await sleep("1d");
  return [before, [loadedAt, drawn[0]]];
}`),
    );
    expect(sharesImage).toBe(false);
    expect(notes).toEqual([
      expect.stringMatching(
        /^workflow code reads the clock while it is loaded at src\/order\.ts:3:\d+$/,
      ),
      expect.stringMatching(
        /^workflow code reads randomness while it is loaded at src\/order\.ts:5:\d+$/,
      ),
    ]);
    const values: unknown[] = [];
    for (let i = 0; i < 2; i++) {
      const startedAt = testing.now();
      const run = await baton.start("order", []);
      await testing.waitForSleep(run);
      await testing.advance(DAY_MS);
      const [before, after] = (await run.returnValue()) as [number[], number[]];
      // Whether it was replayed or not, it reads what it read.
      expect(after).toEqual(before);
      expect(before[0]).toBe(startedAt);
      values.push(before[1]);
    }
    expect(values[0]).not.toBe(values[1]);
  });

  it("that is refused says why at the line of its source", async () => {
    const { baton } = await opened();
    const throws = await built(`export async function order() { "use workflow"; }

export const table = JSON.parse("{");`);
    await expect(baton.bundles.deploy(throws)).rejects.toMatchObject({
      code: "BUNDLE_REFUSED",
      details: { field: "workflowCode" },
      message: expect.stringMatching(/SyntaxError.*src\/order\.ts:3:\d+/s) as string,
    });
    const early = await built(`async function top() { "use step"; }
export async function order() { "use workflow"; await top(); }
export const started = fetch("https://a.example");`);
    await expect(baton.bundles.deploy(early)).rejects.toMatchObject({
      message: expect.stringMatching(/fetch is not available.*src\/order\.ts:3:\d+/s) as string,
    });
    expect((await baton.bundles.list()).data).toEqual([]);
  });
});
