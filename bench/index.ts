/** `npm run bench -- <question> [options]`: one question per file beside this one. */
import { readdirSync } from "node:fs";
import { runCheck } from "./check.ts";
import type { CheckForm } from "./check.ts";

const folder = new URL(".", import.meta.url);
const questions = readdirSync(folder)
  .filter((file) => file.endsWith(".bench.ts"))
  .map((file) => file.slice(0, -".bench.ts".length));

const [question, ...rest] = process.argv.slice(2);
if (question === undefined || !questions.includes(question)) {
  console.log(`usage: npm run bench -- <${questions.join("|")}> [--help] [--full] [--json]`);
  process.exitCode = question === undefined || question === "--help" ? 0 : 2;
} else {
  // Each file exports `form`; which ones there are is only known from the folder.
  const loaded = (await import(new URL(`${question}.bench.ts`, folder).href)) as {
    form: CheckForm;
  };
  await runCheck({ ...loaded.form, name: question }, rest);
}
