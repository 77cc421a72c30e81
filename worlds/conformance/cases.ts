/** The form of a group of cases: it gets a way to reach the World under test. */
import type { Bench } from "./harness.ts";

/** Called while vitest collects; `use()` gives the World that was opened for the running case. */
export type Cases = (use: () => Bench) => void;
