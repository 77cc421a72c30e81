import { defineConfig } from "vitest/config";

function project(name: string, folders: string[], testTimeout: number) {
  return {
    extends: true as const,
    test: {
      name,
      include: folders.map((folder) => `test/${folder}/**/*.test.ts`),
      testTimeout,
      hookTimeout: testTimeout,
    },
  };
}

export default defineConfig({
  test: {
    exclude: ["dist/**", "node_modules/**"],
    pool: "forks",
    // Two cores: more forks only take time from the threads that the tests themselves start.
    maxWorkers: 2,
    reporters: ["default", "./scripts/closing-line-reporter.ts"],
    projects: [
      {
        extends: true as const,
        test: { name: "tidy", include: ["test/*.test.ts"], testTimeout: 60_000 },
      },
      project("unit", ["engine", "sandbox", "tenants"], 30_000),
      project("worlds", ["worlds"], 60_000),
      project("sim", ["sim", "scenarios", "histories"], 120_000),
      project("e2e", ["e2e"], 180_000),
    ],
  },
});
