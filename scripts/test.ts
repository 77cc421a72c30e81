/**
 * `npm test`: builds, then format, lint, types, and all test projects. Every stage runs even if an
 * earlier one failed; the exit code says whether all passed, and the last line counts the tests
 * with each failed stage as one failure.
 */
import { spawnSync } from "node:child_process";

interface Stage {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
}

const STAGES: readonly Stage[] = [
  { name: "build", command: ["npm", "run", "--silent", "build"] },
  { name: "format", command: ["npx", "prettier", "--check", "--log-level", "warn", "."] },
  { name: "lint", command: ["npx", "oxlint", "--type-aware", "--quiet"] },
  { name: "types", command: ["npx", "tsc", "-p", "tsconfig.json"] },
];

let failedStages = 0;
for (const { name, command } of STAGES) {
  const startedAt = Date.now();
  const [program, ...args] = command;
  const { status } = spawnSync(program, args, { stdio: "inherit" });
  console.log(`${status === 0 ? "ok    " : "FAILED"} ${name} (${Date.now() - startedAt} ms)`);
  if (status !== 0) failedStages++;
}

const tests = spawnSync("npx", ["vitest", "run", ...process.argv.slice(2)], {
  stdio: "inherit",
  env: { ...process.env, BATON_FAILED_STAGES: String(failedStages) },
});
process.exitCode = tests.status === 0 && failedStages === 0 ? 0 : 1;
