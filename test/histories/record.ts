/**
 * Records a set of histories: `node --import tsx test/histories/record.ts <set>`, after a build.
 * A set that is there is never written over.
 */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { RunEvent } from "../../engine/events.ts";
import { newWrappedKey } from "../../tenants/keys.ts";
import { parseMasterKeys } from "../../tenants/master-key-file.ts";
import { sealWorld } from "../../tenants/sealed-world.ts";
import { buildSources } from "../sim/bundle.ts";
import { plannedCase } from "../sim/catalog.ts";
import { drawsOf } from "../sim/draws.ts";
import { openParts } from "../sim/schedules.ts";
import { simulate } from "../sim/simulator.ts";
import { decisionsOf, vaultOf, withoutBytes, worldHolding } from "./history.ts";
import type { History, RecordedBundle } from "./history.ts";

const WORKFLOWS = [
  "fanOut",
  "fanOutThenSleep",
  "settledFanOut",
  "raceLoop",
  "stepAgainstHook",
  "hookLoop",
  "hookConflict",
  "manyHooks",
  "retriedInDays",
  "compensated",
  "nestedTries",
  "unserializable",
  "attributes",
  "clockReader",
  "randomReader",
  "hourAndTwo",
];

const [set = ""] = process.argv.slice(2);
const folder = fileURLToPath(new URL(`${set}/`, import.meta.url));
if (set === "" || existsSync(folder)) throw new Error("name a set that is not there yet");
mkdirSync(folder);

const sources = await buildSources();
const parts = openParts(sources, null);
const masterKey = `1:${randomBytes(32).toString("base64")}`;
let bundle: RecordedBundle | null = null;

for (const workflow of WORKFLOWS) {
  const observation = await simulate(
    {
      seed: `history ${workflow}`,
      runs: [(who) => plannedCase(drawsOf(workflow), who, workflow)],
      profile: { probability: 0.03, max: 10 },
      print: null,
    },
    parts,
  );
  const run = observation.runs[0];
  if (run === undefined) throw new Error(`${workflow} did not run`);
  const { ref } = run.record;
  bundle ??= {
    hash: sources.hash,
    workflowCode: sources.workflowCode,
    guestLibrary: sources.guestLibrary,
    masterKey,
    wrappedKey: newWrappedKey(parseMasterKeys(masterKey, "a history's test key"), ref.tenantId),
  };
  const sealed: RunEvent[] = [];
  const store = sealWorld(worldHolding(sealed), vaultOf(bundle)).forTenant(ref.tenantId);
  for (const event of run.events) await store.events.create(ref.runId, event);
  const history: History = {
    ...ref,
    events: sealed.map((event) => withoutBytes(event)),
    decisions: await decisionsOf(ref, run.events, { sandbox: parts.sandbox, sources }),
  };
  writeFileSync(`${folder}${workflow}.json`, `${JSON.stringify(history, null, 1)}\n`);
}
writeFileSync(`${folder}bundle.json`, `${JSON.stringify(bundle)}\n`);
await parts.close();
