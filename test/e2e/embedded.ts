/** A Baton on the local World in a folder of its own, with a small project deployed. */
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createBaton } from "../../engine/compose.ts";
import type { Baton, BatonOptions } from "../../engine/compose.ts";
import { buildBundle } from "../../tenants/bundles/build.ts";
import { openLocalWorld } from "../../worlds/local/index.ts";

export class Embedded implements AsyncDisposable {
  readonly folder: string;
  #baton: Baton | null = null;
  readonly #options: Partial<BatonOptions>;

  private constructor(folder: string, options: Partial<BatonOptions>) {
    this.folder = folder;
    this.#options = options;
  }

  /** `files` are the project's sources by path; those in `workflows/` are its entries. */
  static async open(
    files: Readonly<Record<string, string>>,
    options: Partial<BatonOptions> = {},
  ): Promise<Embedded> {
    const folder = await mkdtemp(join(tmpdir(), "baton-e2e-"));
    const embedded = new Embedded(folder, options);
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, "project", path)), { recursive: true });
      await writeFile(join(folder, "project", path), text);
    }
    await embedded.start();
    await embedded.deploy("default");
    return embedded;
  }

  async deploy(tenantId: string): Promise<void> {
    const projectRoot = join(this.folder, "project");
    const bundle = await buildBundle({ projectRoot, entries: ["workflows"] });
    await this.baton.bundles.deploy(bundle, { tenantId });
  }

  get baton(): Baton {
    if (this.#baton === null) throw new Error("the Baton is closed");
    return this.#baton;
  }

  get databasePath(): string {
    return join(this.folder, "data", "baton.db");
  }

  async start(): Promise<void> {
    await mkdir(dirname(this.databasePath), { recursive: true });
    this.#baton = await createBaton({
      world: await openLocalWorld({ path: this.databasePath }),
      keyFolder: join(this.folder, "keys"),
      steps: { trust: "host" },
      ...this.#options,
    });
  }

  async stop(): Promise<void> {
    await this.#baton?.close();
    this.#baton = null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}
