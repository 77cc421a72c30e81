/**
 * `npm run docs`: writes the parts of the documents that follow from the code, between their
 * markers. `test/tidy.test.ts` fails where what stands there is not what the code says.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { generatedParts } from "./doc-parts.ts";

for (const { file, name, text } of generatedParts()) {
  const before = readFileSync(file, "utf8");
  const open = `<!-- generated: ${name} -->`;
  const close = `<!-- end: ${name} -->`;
  const from = before.indexOf(open);
  const to = before.indexOf(close);
  if (from < 0 || to < from) throw new Error(`${file} has no markers for ${name}`);
  const after = `${before.slice(0, from + open.length)}\n\n${text}\n\n${before.slice(to)}`;
  if (after !== before) {
    writeFileSync(file, after);
    console.log(`${file}: ${name}`);
  }
}
