/** The one form of long checks, from outside. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";

const FORM = pathToFileURL(resolve("bench/check.ts")).href;

/** Runs a check whose work is this expression. */
function checked(work: string) {
  const folder = mkdtempSync(join(tmpdir(), "baton-check-"));
  const file = join(folder, "check.mjs");
  writeFileSync(
    file,
    `import { runCheck } from ${JSON.stringify(FORM)};
    await runCheck({ name: "some", description: "A check.", run: () => ${work} }, ["--json"]);`,
  );
  const { status, stdout, stderr } = spawnSync("node", ["--import", "tsx", file], {
    encoding: "utf8",
  });
  rmSync(folder, { recursive: true });
  return { status, stdout, stderr };
}

it("a check whose process ends before it has answered has failed, and says so", () => {
  const { status, stdout, stderr } = checked("new Promise(() => undefined)");
  expect(status).toBeGreaterThan(0);
  expect(stdout).toBe("");
  expect(stderr).toContain("some: ended before it was finished");
});

it("a check that answers is believed", () => {
  const good = checked("Promise.resolve({ ok: true, figures: { found: 1 } })");
  expect({ ...good, stdout: JSON.parse(good.stdout) as unknown }).toMatchObject({
    status: 0,
    stdout: { check: "some", ok: true, figures: { found: 1 } },
    stderr: "",
  });
  expect(checked("Promise.resolve({ ok: false, figures: {} })").status).toBe(1);
});
