/** The README's snippets, run as they stand, against the package as npm would install it. */
import { execFileSync, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";

const README = readFileSync("README.md", "utf8");

/** The code blocks that say which file they are. */
function snippets(): ReadonlyMap<string, string> {
  const blocks = [...README.matchAll(/```ts\n\/\/ (\S+\.ts)[^\n]*\n([\s\S]*?)```/g)];
  return new Map(blocks.map(([, file = "", code = ""]) => [file, code]));
}

describe("the README", () => {
  it("its workflow, embedded as it says, returns what it says", () => {
    execFileSync("npm", ["run", "--silent", "build", "--", "--package"]);
    const folder = mkdtempSync(join(tmpdir(), "baton-readme-"));
    try {
      for (const name of ["workflows", "data", "node_modules"]) mkdirSync(join(folder, name));
      symlinkSync(resolve("."), join(folder, "node_modules/baton"));
      writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
      for (const [file, code] of snippets()) writeFileSync(join(folder, file), code);
      const ran = spawnSync(
        "node",
        ["--import", createRequire(import.meta.url).resolve("tsx"), "host.ts"],
        {
          cwd: folder,
          encoding: "utf8",
          timeout: 120_000,
        },
      );
      expect(ran.stderr).toBe("");
      expect(README).toContain(`it returns \`${ran.stdout.trim()}\``);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  it("its commands are scripts of the package", () => {
    const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as {
      scripts: Record<string, string>;
    };
    const named = [...README.matchAll(/npm (?:run )?([a-z]+)\b/g)].map(([, name = ""]) => name);
    const commands = new Set(named.filter((name) => name !== "ci"));
    expect(commands.size).toBeGreaterThan(1);
    for (const command of commands) expect(Object.keys(scripts)).toContain(command);
  });
});
