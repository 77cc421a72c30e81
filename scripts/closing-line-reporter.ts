/** Ends a test run with the one line that CI and people look for. */
import type { Reporter, TestModule } from "vitest/node";

export default class ClosingLineReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0;
    let failed = Number(process.env["BATON_FAILED_STAGES"] ?? 0) + errors.length;
    let skipped = 0;
    for (const module of modules) {
      if (module.state() === "failed" && module.errors().length > 0) failed++;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === "passed") passed++;
        else if (state === "failed") failed++;
        else skipped++;
      }
    }
    // After the default reporter's summary, whatever order the two are called in.
    process.once("exit", () => {
      console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
    });
  }
}
