import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { artifactIn, artifactText, writeArtifact } from "../../../tenants/bundles/artifact.ts";
import type { BuiltBundle } from "../../../tenants/bundles/build.ts";
import { watchBundle } from "../../../tenants/bundles/watch.ts";
import type { BundleWatch } from "../../../tenants/bundles/watch.ts";
import { build, manifestOf, projectOf } from "./project.ts";

type Told = { readonly built: BuiltBundle } | { readonly refused: Error };

/** A watched project, and what its watcher was told, one after the other. */
class Watched {
  readonly root: string;
  readonly #told: Told[] = [];
  #wake: () => void = () => undefined;
  #watch: BundleWatch | null = null;

  constructor(files: Readonly<Record<string, string>>) {
    this.root = projectOf(files);
  }

  async start(): Promise<void> {
    const tell = (told: Told): void => {
      this.#told.push(told);
      this.#wake();
    };
    this.#watch = await watchBundle({
      projectRoot: this.root,
      entries: ["src"],
      guestLibrary: "guest",
      quietMs: 20,
      onBuilt: (built) => tell({ built }),
      onRefused: (error) => tell({ refused: error as Error }),
    });
  }

  write(name: string, text: string): void {
    mkdirSync(join(this.root, name, ".."), { recursive: true });
    writeFileSync(join(this.root, name), text);
  }

  async next(): Promise<Told> {
    for (;;) {
      const told = this.#told.shift();
      if (told !== undefined) return told;
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async nextBuilt(): Promise<BuiltBundle> {
    const told = await this.next();
    if ("refused" in told) throw told.refused;
    return told.built;
  }

  get toldCount(): number {
    return this.#told.length;
  }

  async close(): Promise<void> {
    await this.#watch?.close();
    rmSync(this.root, { recursive: true });
  }
}

const WORKFLOW = (text: string) =>
  `export async function order() { "use workflow"; return "${text}"; }`;

describe("a watched project", () => {
  let watched: Watched;
  afterEach(() => watched.close());

  it("is built at once, again when a file changes, and when one in a new folder is imported", async () => {
    watched = new Watched({ "src/order.ts": WORKFLOW("one") });
    await watched.start();
    expect((await watched.nextBuilt()).workflowCode).toContain('"one"');
    watched.write("src/order.ts", WORKFLOW("two"));
    expect((await watched.nextBuilt()).workflowCode).toContain('"two"');
    watched.write("lib/new/rate.ts", `export const rate = 1;`);
    watched.write(
      "src/order.ts",
      `import { rate } from "../lib/new/rate.ts";
       export async function order() { "use workflow"; return rate; }`,
    );
    expect(manifestOf(await watched.nextBuilt()).sources).toContain("lib/new/rate.ts");
    watched.write("lib/new/rate.ts", `export const rate = 77;`);
    expect((await watched.nextBuilt()).workflowCode).toContain("rate = 77");
  });

  it("that breaks says where, and is built again once it is mended", async () => {
    watched = new Watched({ "src/order.ts": WORKFLOW("one") });
    await watched.start();
    const first = await watched.nextBuilt();
    watched.write("src/order.ts", `import { gone } from "./gone.ts";\n${WORKFLOW("one")}\ngone();`);
    expect(await watched.next()).toMatchObject({
      refused: { code: "BUNDLE_REFUSED", details: { file: "src/order.ts", line: 1 } },
    });
    watched.write("src/gone.ts", `export const gone = () => undefined;`);
    expect(manifestOf(await watched.nextBuilt()).sources).toContain("src/gone.ts");
    watched.write("src/order.ts", WORKFLOW("one"));
    expect((await watched.nextBuilt()).hash).toBe(first.hash);
  });

  it("tells of many changes at once as one, and of none that changes nothing", async () => {
    watched = new Watched({ "src/order.ts": WORKFLOW("0") });
    await watched.start();
    await watched.nextBuilt();
    for (let i = 1; i <= 50; i++) watched.write("src/order.ts", WORKFLOW(String(i)));
    let last = await watched.nextBuilt();
    while (!last.workflowCode.includes('"50"')) last = await watched.nextBuilt();
    watched.write("src/order.ts", WORKFLOW("50"));
    watched.write("README.md", "text");
    watched.write("node_modules/x/index.js", "1");
    watched.write("src/order.ts", WORKFLOW("51"));
    expect((await watched.nextBuilt()).workflowCode).toContain('"51"');
    expect(watched.toldCount).toBe(0);
  });

  it("that has no such folder is refused at once", async () => {
    watched = new Watched({ "src/order.ts": WORKFLOW("one") });
    const missing = watchBundle({
      projectRoot: join(watched.root, "nowhere"),
      entries: ["src"],
      onBuilt: () => undefined,
      onRefused: () => undefined,
    });
    await expect(missing).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("tells nothing once it is closed, and a build under way is over by then", async () => {
    watched = new Watched({ "src/order.ts": WORKFLOW("one") });
    await watched.start();
    watched.write("src/order.ts", WORKFLOW("two"));
    const { root } = watched;
    await watched.close();
    const told = watched.toldCount;
    watched.write("src/order.ts", WORKFLOW("three"));
    const other = new Watched({ "src/order.ts": WORKFLOW("other") });
    await other.start();
    await other.nextBuilt();
    await other.close();
    expect(watched.toldCount).toBe(told);
    expect(root).toBe(watched.root);
  });
});

describe("an artifact", () => {
  it("is one file, named by the hash, from which the bundle comes back", async () => {
    const bundle = await build({ "src/order.ts": WORKFLOW("one") });
    const folder = join(mkdtempSync(join(tmpdir(), "baton-artifacts-")), "out");
    const path = await writeArtifact(folder, bundle);
    expect(readdirSync(folder)).toEqual([`${bundle.hash}.json`]);
    expect(artifactIn(readFileSync(path, "utf8"))).toEqual(bundle);
    expect(await writeArtifact(folder, bundle)).toBe(path);
    rmSync(folder, { recursive: true });
  });

  it.each([
    ["is no JSON", (_text: string) => "{"],
    ["has another form", (text: string) => text.replace("baton-bundle-1", "baton-bundle-2")],
    ["lacks a part", (text: string) => text.replace('"stepMap"', '"otherMap"')],
    ["was changed", (text: string) => text.replace("one", "two")],
  ])("that %s is refused", async (_what, change) => {
    const text = artifactText(await build({ "src/order.ts": WORKFLOW("one") }));
    expect(() => artifactIn(change(text))).toThrow(
      expect.objectContaining({ code: "BUNDLE_REFUSED" }),
    );
  });
});
