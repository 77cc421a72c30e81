import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { BundleHash } from "../../engine/ids.ts";
import { createSandbox } from "../../sandbox/index.ts";
import { admitBundle, type AdmissionParts, type OfferedBundle } from "../../tenants/admission.ts";
import { buildBundle } from "../../tenants/bundles/build.ts";
import { bundleHash, manifestText } from "../../tenants/bundles/manifest.ts";
import { guestLibraryText } from "../../tenants/bundles/shims.ts";
import { SERVER_QUOTAS } from "../../tenants/quota.ts";
import { TenantRegistry } from "../../tenants/registry.ts";
import { Vault } from "../../tenants/vault.ts";
import { manifestOf, projectOf, type Files } from "./bundles/project.ts";
import { RecordingWorld } from "./recording-world.ts";
import { ACME, ZETA, keysInMemory, masterKeys } from "./vaults.ts";

const sandbox = createSandbox({ form: "calling-thread" });
afterAll(() => sandbox.close());

let below: RecordingWorld;
let registry: TenantRegistry;
let parts: AdmissionParts;
beforeEach(async () => {
  below = new RecordingWorld();
  const vault = new Vault(masterKeys(1), keysInMemory());
  const clock = { now: () => 5, setTimer: () => () => undefined };
  registry = new TenantRegistry({
    records: below.world.tenants,
    vault,
    clock,
    defaults: SERVER_QUOTAS,
  });
  parts = { world: below.world, sandbox, registry, clock, guestLibraries: [guestLibraryText()] };
  await registry.create(ACME);
});

const built = (files: Files) => buildBundle({ projectRoot: projectOf(files), entries: ["src"] });
/** A bundle with some parts changed and its hash computed again, as a liar would. */
function altered(bundle: OfferedBundle, change: Partial<OfferedBundle>): OfferedBundle {
  const changed = { ...bundle, ...change };
  return { ...changed, hash: change.hash ?? bundleHash(changed) };
}

const SOURCE = `
  import { sleep } from "workflow";
  export async function order(n: number) {
    "use workflow";
    const nested = async (a: number) => { "use step"; return a + n; };
    await sleep("1s");
    return [await top(1), await nested(1)];
  }
  export async function top(n: number) { "use step"; return n; }`;
let bundle: OfferedBundle;
beforeAll(async () => {
  bundle = await built({ "src/order.ts": SOURCE });
});

describe("an admitted bundle", () => {
  it("is stored with both sides, its manifest and the guest library it was admitted with", async () => {
    const admitted = await admitBundle(parts, ACME, bundle);
    expect(admitted).toEqual({
      hash: bundle.hash,
      workflows: ["workflow//./src/order//order"],
      sharesImage: true,
      notes: [],
    });
    const { workflowCode, stepCode, manifest, guestLibrary, hash } = bundle;
    expect(await below.world.forTenant(ACME).bundles.get(admitted.hash)).toEqual({
      hash,
      workflowCode,
      stepCode,
      manifest,
      guestLibrary,
      createdAt: 5,
    });
    expect(await admitBundle(parts, ACME, bundle)).toEqual(admitted);
    expect(below.bundles.size).toBe(1);
  });

  it("that reads the clock at its top level is admitted without a shared image, and says where", async () => {
    const clocked = await built({
      "src/order.ts": `const at = Date.now();\n${SOURCE}\nexport const used = at; console.log(at);`,
    });
    const admitted = await admitBundle(parts, ACME, clocked);
    expect(admitted.sharesImage).toBe(false);
    expect(admitted.notes).toEqual([
      expect.stringMatching(
        /^workflow code reads the clock while it is loaded at bundle\.js:\d+:\d+$/,
      ),
      expect.stringMatching(/^step code reads the clock while it is loaded at steps\.js:\d+:\d+$/),
    ]);
  });

  it("whose step code alone looks at chance or its environment shares its workflows' image", async () => {
    const curious = await built({
      "src/order.ts": SOURCE.replace(
        "export async function top(n: number) {",
        `const seen = [Math.random(), process.env["KEY"]];
         export async function top(n: number) { "use step"; return seen[0]; }
         export async function other(n: number) {`,
      ),
    });
    const admitted = await admitBundle(parts, ACME, curious);
    expect(admitted.sharesImage).toBe(true);
    expect(admitted.notes.map((note) => note.replace(/\d+:\d+/, "1:1"))).toEqual([
      "step code reads randomness while it is loaded at steps.js:1:1",
      "step code reads its environment while it is loaded at steps.js:1:1",
    ]);
  });
});

describe("refused is, and leaves nothing behind,", () => {
  afterEach(() => expect(below.bundles.size).toBe(0));

  it.each<[string, (bundle: OfferedBundle) => OfferedBundle, string]>([
    ["a hash that is not the content's", (one) => altered(one, { hash: "a".repeat(64) }), "hash"],
    [
      "a changed program under the old hash",
      (one) => ({ ...one, workflowCode: `${one.workflowCode};` }),
      "hash",
    ],
    [
      "another guest library",
      (one) => altered(one, { guestLibrary: `${one.guestLibrary};` }),
      "guestLibrary",
    ],
    ["a manifest that is no JSON", (one) => altered(one, { manifest: "{" }), "manifest"],
    [
      "a manifest in another form",
      (one) => altered(one, { manifest: ` ${one.manifest}` }),
      "manifest",
    ],
    ["bytecode", (one) => altered(one, { workflowCode: "\u0002\u0000\u0001" }), "workflowCode"],
    ["text that is not well formed", (one) => altered(one, { stepCode: "'\ud800'" }), "stepCode"],
    [
      "a program that does not parse",
      (one) => altered(one, { workflowCode: "let let" }),
      "workflowCode",
    ],
    [
      "a program that throws",
      (one) => altered(one, { workflowCode: "throw new Error('top')" }),
      "workflowCode",
    ],
    [
      "a program that never ends",
      (one) => altered(one, { workflowCode: "for (;;);" }),
      "workflowCode",
    ],
    [
      "a program that takes all memory",
      (one) => altered(one, { workflowCode: "for (var a = [];;) a.push(new Uint8Array(1e6))" }),
      "workflowCode",
    ],
    [
      "a program without the workflows that its manifest lists",
      (one) => altered(one, { workflowCode: "1" }),
      "manifest.workflows",
    ],
    ["step code that does not parse", (one) => altered(one, { stepCode: "let let" }), "stepCode"],
    [
      "step code that throws",
      (one) => altered(one, { stepCode: "throw new Error('top')" }),
      "stepCode",
    ],
    ["step code that never ends", (one) => altered(one, { stepCode: "for (;;);" }), "stepCode"],
    [
      "step code that takes all memory",
      (one) => altered(one, { stepCode: "for (var a = [];;) a.push(new Uint8Array(1e6))" }),
      "stepCode",
    ],
    [
      "step code without the steps that its manifest lists",
      (one) => altered(one, { stepCode: "1" }),
      "manifest.steps",
    ],
    [
      "step code with a step that its manifest does not list",
      (one) =>
        altered(one, {
          stepCode: `${one.stepCode}
            globalThis[Symbol.for("@workflow/core//registeredSteps")].set("step//./x//x", () => 1);`,
        }),
      "manifest.steps",
    ],
  ])("%s", async (_name, change, field) => {
    await expect(admitBundle(parts, ACME, change(bundle))).rejects.toMatchObject({
      code: "BUNDLE_REFUSED",
      details: { field },
    });
  });

  it("a manifest that lists fewer or other steps than the code has", async () => {
    const manifest = manifestOf(bundle as Parameters<typeof manifestOf>[0]);
    const steps = manifest.steps["src/order.ts"] ?? {};
    const { top: _top, ...fewer } = steps;
    for (const listed of [fewer, { ...steps, more: { stepId: "step//./src/order//more" } }]) {
      const text = manifestText({ ...manifest, steps: { "src/order.ts": listed } });
      await expect(
        admitBundle(parts, ACME, altered(bundle, { manifest: text })),
      ).rejects.toMatchObject({
        code: "BUNDLE_REFUSED",
        details: { field: "manifest.steps" },
      });
    }
  });

  it.each([
    ["workflow", "a step", "void (globalThis.early = top(1));"],
    ["workflow", "a sleep", "try { void sleep(1); } catch { /* It minds nothing. */ }"],
    ["workflow", "the network", 'void workflowFetch("https://a.example").catch(() => undefined);'],
    ["workflow", "the global fetch", 'void fetch("https://a.example");'],
    ["workflow", "a timer", "setTimeout(() => undefined, 1);"],
    ["step", "the network", 'void fetch("https://a.example").catch(() => undefined);'],
    ["step", "a timer", "try { setTimeout(() => undefined, 1); } catch { /* Nor here. */ }"],
    ["step", "a stream of the run", "void getWritable().getWriter();"],
    ["step", "another run", 'void resumeHook("token", 1).catch(() => undefined);'],
  ])("%s code that asks for %s while it is loaded", async (side, _what, code) => {
    const early = await built({
      "src/order.ts": `import { sleep, fetch as workflowFetch, getWritable } from "workflow";
        import { resumeHook } from "workflow/api";
        export async function top(n: number) { "use step"; return n; }
        export async function order() { "use workflow"; await sleep(1); return top(1); }
        export const used = [workflowFetch, getWritable, resumeHook];
        if ((globalThis[Symbol.for("baton.guest")] as { side: string }).side === "${side}") { ${code} }`,
    });
    const refusal = await admitBundle(parts, ACME, early).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: "BUNDLE_REFUSED", details: { field: `${side}Code` } });
    expect(String(refusal)).toMatch(/(bundle|steps)\.js:\d+:\d+/);
  });

  it("one byte over the limit, while what just fits is measured on", async () => {
    const used = Buffer.byteLength(bundle.workflowCode + bundle.stepCode + bundle.manifest);
    await registry.setQuotas(ACME, { bundleBytesMax: used - 1 });
    await expect(admitBundle(parts, ACME, bundle)).rejects.toMatchObject({
      code: "BUNDLE_TOO_LARGE",
      status: 413,
      details: { used, allowed: used - 1 },
    });
    await registry.setQuotas(ACME, { bundleBytesMax: used });
    await expect(admitBundle(parts, ACME, { ...bundle, hash: "" })).rejects.toMatchObject({
      details: { field: "hash" },
    });
  });

  it("anything of a tenant that is unknown or suspended", async () => {
    await expect(admitBundle(parts, ZETA, bundle)).rejects.toMatchObject({
      code: "TENANT_NOT_FOUND",
    });
    await registry.suspend(ACME);
    await expect(admitBundle(parts, ACME, bundle)).rejects.toMatchObject({
      code: "TENANT_SUSPENDED",
    });
  });
});

describe("what a server's tenant may upload where its record says nothing", () => {
  it("is 4 MiB of source", async () => {
    const room = 4 * 1024 * 1024;
    const used = Buffer.byteLength(bundle.workflowCode + bundle.stepCode + bundle.manifest);
    const padded = (bytes: number) =>
      altered(bundle, { workflowCode: `${bundle.workflowCode}//${"x".repeat(bytes - used - 2)}` });
    await expect(admitBundle(parts, ACME, padded(room + 1))).rejects.toMatchObject({
      code: "BUNDLE_TOO_LARGE",
      status: 413,
      details: { field: "bundleBytesMax", used: room + 1, allowed: room },
    });
    expect(below.bundles.size).toBe(0);
    expect((await admitBundle(parts, ACME, padded(room))).sharesImage).toBe(true);
  });

  it("is 100 bundles", async () => {
    for (let n = 0; n < 99; n++) {
      const hash = n.toString(16).padStart(64, "0") as BundleHash;
      below.bundles.set(`${ACME}/${hash}`, { ...bundle, hash, createdAt: 0 });
    }
    await admitBundle(parts, ACME, bundle);
    const other = altered(bundle, { workflowCode: `${bundle.workflowCode}//` });
    await expect(admitBundle(parts, ACME, other)).rejects.toMatchObject({
      code: "BUNDLES_KEPT",
      status: 409,
      details: { field: "bundlesMax", used: 101, allowed: 100 },
    });
    await registry.create(ZETA);
    await admitBundle(parts, ZETA, other);
  });
});

describe("the number of bundles kept", () => {
  it("is bounded for new ones; one that is there may come again", async () => {
    await registry.setQuotas(ACME, { bundlesMax: 1 });
    await admitBundle(parts, ACME, bundle);
    const other = await built({ "src/order.ts": SOURCE.replace("1s", "2s") });
    await expect(admitBundle(parts, ACME, other)).rejects.toMatchObject({
      code: "BUNDLES_KEPT",
      status: 409,
      details: { field: "bundlesMax", used: 2, allowed: 1 },
    });
    expect(below.bundles.size).toBe(1);
    await admitBundle(parts, ACME, bundle);
  });
});
