/** Checks of the code itself: sizes, borders between folders, names and words. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, normalize } from "node:path";
import { describe, expect, it } from "vitest";
import { generatedParts, standingText } from "../scripts/doc-parts.ts";
import { MUTANTS } from "../worlds/conformance/mutants.ts";

const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], {
  encoding: "utf8",
})
  .split("\n")
  .filter((file) => file !== "" && existsSync(file));
const sources = files.filter((file) => /\.(ts|mts)$/.test(file));

const FOLDERS = ["engine", "sandbox", "worlds", "tenants"];
/** Joins all folders: for a platform, and for its tests. */
const WIRING = /^engine\/(compose|testing|testing\/[^/]+)\.ts$/;
/** What the other three folders may import of the engine. */
const ENGINE_DATA = /^engine\/(ports(\/.+)?|ids|events|slots|payload|assert|errors|limits)\.ts$/;

describe("sizes", () => {
  it("no source file has more than 500 lines", () => {
    const long = sources.filter((file) => readFileSync(file, "utf8").split("\n").length > 501);
    expect(long).toEqual([]);
  });
});

describe("borders", () => {
  it("imports between the folders point one way", () => {
    const wrong: string[] = [];
    for (const file of sources) {
      const folder = file.split("/")[0] ?? "";
      if (!FOLDERS.includes(folder) || WIRING.test(file)) continue;
      for (const target of importsOf(file)) {
        const other = target.split("/")[0] ?? "";
        if (other === folder || !FOLDERS.includes(other)) continue;
        if (folder !== "engine" && ENGINE_DATA.test(target)) continue;
        wrong.push(`${file} imports ${target}`);
      }
    }
    expect(wrong).toEqual([]);
  });

  it("the engine imports no Node module", () => {
    const wrong = sources
      .filter((file) => file.startsWith("engine/") && !WIRING.test(file))
      .filter((file) => /from "node:/.test(readFileSync(file, "utf8")));
    expect(wrong).toEqual([]);
  });

  it("what runs inside a heap imports no Node module", () => {
    const wrong = sources
      .filter((file) => file.startsWith("sandbox/guest/"))
      .filter((file) => /from "node:/.test(readFileSync(file, "utf8")));
    expect(wrong).toEqual([]);
  });
});

describe("mutants", () => {
  it("each of the conformance suite's stands exactly once in its file", () => {
    const times = (file: string, find: string) => readFileSync(file, "utf8").split(find).length - 1;
    const stale = MUTANTS.filter(({ file, find }) => times(file, find) !== 1);
    expect(stale).toEqual([]);
  });
});

describe("documents", () => {
  it("what the documents say of the code is what the code says (`npm run docs`)", () => {
    const squeezed = (text: string | null) => text?.replaceAll(/ +|-{3,}/g, " ");
    for (const part of generatedParts()) {
      expect(squeezed(standingText(part))).toBe(squeezed(part.text));
    }
  });

  it("every file that ARCHITECTURE.md names is there", () => {
    const text = readFileSync("ARCHITECTURE.md", "utf8");
    const named = [...text.matchAll(/`((?:engine|sandbox|worlds|tenants|test)\/[\w./-]*)`/g)];
    const missing = named.map((match) => match[1] ?? "").filter((path) => !existsSync(path));
    expect(missing).toEqual([]);
  });
});

describe("names and words", () => {
  it("no file is called utils, common, helpers, manager, service or handler", () => {
    const wrong = files.filter((file) =>
      /(^|\/)[^/]*\b(utils|common|helpers|manager|service|handler)\b[^/]*\.ts$/.test(file),
    );
    expect(wrong).toEqual([]);
  });

  it("nothing is left for later, and no path of a machine is written down", () => {
    const words = /\b(TODO|FIXME|XXX|HACK)\b|\/(home|root|work|Users)\/[a-z]/;
    const wrong = [...sources, ...files.filter((file) => file.endsWith(".md"))]
      .filter((file) => file !== "test/tidy.test.ts")
      .filter((file) => words.test(readFileSync(file, "utf8")));
    expect(wrong).toEqual([]);
  });

  it("no test is skipped, focused or empty", () => {
    const words = /\b(it|describe|test)\.(skip|only|todo)\b|expect\(true\)/;
    const wrong = sources
      .filter((file) => file.startsWith("test/") && file !== "test/tidy.test.ts")
      .filter((file) => words.test(readFileSync(file, "utf8")));
    expect(wrong).toEqual([]);
  });

  it("each source file of the four folders begins with what it owns", () => {
    const wrong = sources
      .filter((file) => FOLDERS.includes(file.split("/")[0] ?? ""))
      .filter((file) => !readFileSync(file, "utf8").startsWith("/**"));
    expect(wrong).toEqual([]);
  });

  it("the lock file names no registry", () => {
    expect(readFileSync("package-lock.json", "utf8")).not.toContain('"resolved": "http');
  });

  it("every dependency has an exact version", () => {
    const manifest = JSON.parse(readFileSync("package.json", "utf8")) as {
      dependencies: Record<string, string>;
      devDependencies: Record<string, string>;
    };
    const all = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies });
    expect(all.filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))).toEqual([]);
  });
});

/** Relative imports of a file, as paths from the root. */
function importsOf(file: string): string[] {
  const found: string[] = [];
  for (const match of readFileSync(file, "utf8").matchAll(/(?:from|import)\s+"(\.[^"]+)"/g)) {
    found.push(normalize(`${dirname(file)}/${match[1]}`));
  }
  return found;
}
