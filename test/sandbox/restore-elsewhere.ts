/**
 * Run as a process of its own by snapshot.test.ts: restores the image in the folder and takes the
 * run to its end. Arguments: folder, fingerprint, digest, the bundle's code.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { slotOf } from "../../engine/slots.ts";
import type { PassResult } from "../../engine/ports/sandbox.ts";
import { textOfPayload } from "../../engine/payload.ts";
import { createSandbox } from "../../sandbox/index.ts";
import { bundleOf, requestFor, stepCompleted } from "./heaps.ts";

const [folder, fingerprint, digest, code] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
];
const sandbox = createSandbox({ form: "calling-thread" });
const image = { slot: slotOf(1), digest, fingerprint, image: readFileSync(join(folder, "image")) };
const result = await sandbox.open(requestFor(bundleOf(code), { image }));
if (result.kind !== "opened") throw new Error(`not restored: ${JSON.stringify(result)}`);
const live = [];
let pass: PassResult = await result.heap.pass([]);
for (let slot = 2; pass.kind === "quiet"; slot++) {
  live.push(pass.operations);
  if (pass.completion !== null) break;
  const id = pass.operations[0]?.correlationId as never;
  pass = await result.heap.pass([stepCompleted(slot, id, slot)]);
}
if (pass.kind !== "quiet" || pass.completion?.kind !== "completed") throw new Error("no end");
const output = JSON.parse(textOfPayload(pass.completion.output)) as unknown;
writeFileSync(join(folder, "result.json"), JSON.stringify({ live, output }));
await sandbox.close();
