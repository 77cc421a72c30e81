/** Every recorded log is replayed to the decisions that were made when it was recorded. */
import { readFileSync, readdirSync } from "node:fs";
import { afterAll, describe, expect, it } from "vitest";
import { bundleHashOf, runIdOf, tenantIdOf } from "../../engine/ids.ts";
import { payloadOfText } from "../../engine/payload.ts";
import { createSandbox } from "../../sandbox/index.ts";
import { guestLibraryText } from "../../tenants/bundles/shims.ts";
import { decisionsOf, openedEvents } from "./history.ts";
import type { History, RecordedBundle } from "./history.ts";

const here = new URL("./", import.meta.url);
const sets = readdirSync(here, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name);
const sandbox = createSandbox({ form: "calling-thread" });

afterAll(() => sandbox.close());

function read<T>(path: string): T {
  return JSON.parse(readFileSync(new URL(path, here), "utf8")) as T;
}

describe.each(sets)("histories %s", (set) => {
  const bundle = read<RecordedBundle>(`${set}/bundle.json`);
  const names = readdirSync(new URL(`${set}/`, here)).filter((name) => name !== "bundle.json");

  async function replayed(name: string, guestLibrary: string) {
    const history = read<History>(`${set}/${name}`);
    const events = await openedEvents(history, bundle);
    const run = { tenantId: tenantIdOf(history.tenantId), runId: runIdOf(history.runId) };
    // Another library is another bundle: images are kept by hash.
    const isPinned = guestLibrary === bundle.guestLibrary;
    const hash = bundleHashOf(isPinned ? bundle.hash : `${"0".repeat(60)}${bundle.hash.slice(60)}`);
    const sources = { hash, workflowCode: bundle.workflowCode, guestLibrary };
    return { history, decisions: await decisionsOf(run, events, { sandbox, sources }) };
  }

  it.each(names)("%s comes to the same decisions on its own guest library", async (name) => {
    const { history, decisions } = await replayed(name, bundle.guestLibrary);
    expect(decisions).toEqual(history.decisions);
  });

  it.each(names)("%s comes to the same decisions on today's guest library", async (name) => {
    const { history, decisions } = await replayed(name, guestLibraryText());
    expect(decisions).toEqual(history.decisions);
  });

  it("a log with another outcome in it comes to other decisions", async () => {
    const history = read<History>(`${set}/nestedTries.json`);
    const events = await openedEvents(history, bundle);
    const changed = events.map((event) =>
      event.eventType === "step_completed"
        ? { ...event, eventData: { ...event.eventData, result: payloadOfText('["other"]') } }
        : event,
    );
    const run = { tenantId: tenantIdOf(history.tenantId), runId: runIdOf(history.runId) };
    const sources = { ...bundle, hash: bundleHashOf(bundle.hash) };
    expect(await decisionsOf(run, changed, { sandbox, sources })).not.toEqual(history.decisions);
  });

  it("holds no payload in the clear", () => {
    for (const name of names) {
      const text = readFileSync(new URL(`${set}/${name}`, here), "utf8");
      const payloads = [...text.matchAll(/"base64": "([^"]+)"/g)].map(([, base64 = ""]) =>
        Buffer.from(base64, "base64").toString("latin1"),
      );
      expect(payloads.length).toBeGreaterThan(2);
      expect(payloads.filter((payload) => !payload.startsWith("encr"))).toEqual([]);
      expect(payloads.filter((payload) => payload.includes("canary-"))).toEqual([]);
    }
  });
});
