/** Cases of the border: W16. Hostile ids, limits just met and just exceeded, malformed events. */
import { describe, expect, it } from "vitest";
import type { NewEvent } from "../../engine/events.ts";
import type { EntityId, RunId, TenantId } from "../../engine/ids.ts";
import {
  EVENT_PAYLOAD_BYTES_MAX,
  EVENT_PLAIN_BYTES_MAX,
  NAME_CHARS_MAX,
  STREAM_CHUNK_BYTES_MAX,
} from "../border.ts";
import type { Cases } from "./cases.ts";
import * as h from "./harness.ts";

const HOSTILE = [
  ["empty", ""],
  ["..", ".."],
  ["*", "*"],
  [">", ">"],
  ["a path", "../../etc/passwd"],
  ["10,000 characters", "x".repeat(10_000)],
  ["unicode", "wrun_\u202e\u0000\ud83d\ude00"],
  ["a quote", "'; DROP TABLE run; --"],
  ["lower case", `wrun_${"0".repeat(25)}a`],
  ["a trailing line break", `wrun_${"0".repeat(26)}\n`],
] as const;

/** Names that others choose: odd, but each its own. */
const ODD_NAMES = [
  "..",
  "*",
  ">",
  "a.b",
  "a/b",
  "a b",
  "%00",
  "é",
  "e\u0301",
  "😀",
  "A",
  "a",
  "'\"",
];

export const borderCases: Cases = (use) => {
  describe("hostile ids (W16)", () => {
    it.each(HOSTILE)("a run id that is %s is refused by every method", async (_, id) => {
      const bench = use();
      const runId = id as RunId;
      const store = bench.store();
      const calls = [
        async () => store.events.create(runId, h.runCreated()),
        async () => store.events.createBatch(runId, [h.waitCreated()], {}),
        async () => store.events.list(runId),
        async () =>
          store.events.subscribe(runId, 0 as never, () => undefined, { onError: () => undefined }),
        async () => store.runs.get(runId),
        async () => store.runs.park(runId, { code: "X", message: "", since: 0 }),
        async () => store.steps.list(runId),
        async () => store.snapshots.get(runId),
        async () => store.blobs.put(runId, "k", h.bytes("")),
        async () => store.streams.write(runId, "s", []),
        async () => store.openEntities(runId),
        async () => bench.world.queue.send(h.wake(runId)),
      ];
      for (const call of calls) await h.refusal(call(), "INVALID_ARGUMENT");
      expect((await store.runs.list()).data).toEqual([]);
    });

    it.each(HOSTILE)("a tenant id that is %s is refused", async (_, id) => {
      const bench = use();
      const tenantId = id as TenantId;
      expect(() => bench.world.forTenant(tenantId)).toThrow(/tenantId/);
      await h.refusal(bench.world.tenants.get(tenantId), "INVALID_ARGUMENT");
      await h.refusal(bench.world.tenants.put(tenantId, "{}", 0), "INVALID_ARGUMENT");
      await h.refusal(bench.world.tenants.purge(tenantId), "INVALID_ARGUMENT");
    });

    it.each(HOSTILE)("an entity id that is %s is refused", async (_, id) => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(bench.inBand(runId, h.waitCreated(id as EntityId)), "INVALID_ARGUMENT");
      await h.refusal(bench.store().steps.get(runId, id as EntityId), "INVALID_ARGUMENT");
      expect((await bench.counts(runId)).seq).toBe(1);
    });

    it("an event belongs to an entity of its own kind", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(bench.inBand(runId, h.stepCreated(h.newId("wait"))), "INVALID_ARGUMENT");
      await h.refusal(bench.inBand(runId, h.hookCreated(h.newId("step"), "t")), "INVALID_ARGUMENT");
      expect((await bench.counts(runId)).seq).toBe(1);
    });

    it("odd names of streams, blobs and aliases are each their own", async () => {
      const bench = use();
      const runId = await bench.started();
      const { streams, blobs, bundles } = bench.store();
      const hash = "ab".repeat(32) as never;
      for (const name of ODD_NAMES) {
        await streams.write(runId, name, [h.bytes(name)]);
        await blobs.put(runId, name, h.bytes(name));
        await bundles.setAlias(name, hash);
      }
      expect(new Set(await streams.list(runId))).toEqual(new Set(ODD_NAMES));
      for (const name of ODD_NAMES) {
        expect(await blobs.get(runId, name)).toEqual(h.bytes(name));
        const { chunks } = await streams.getChunks(runId, name, { startIndex: 0 });
        expect(chunks).toEqual([h.bytes(name)]);
      }
      expect((await bundles.listAliases()).length).toBe(ODD_NAMES.length);
    });

    it.each([
      ["empty", ""],
      ["too long", "x".repeat(NAME_CHARS_MAX + 1)],
      ["with a NUL", "a\u0000b"],
      ["with a line break", "a\nb"],
      ["with half a character", "a\ud83d"],
    ])("a name that is %s is refused", async (_, name) => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(bench.store().blobs.put(runId, name, h.bytes("")), "INVALID_ARGUMENT");
      await h.refusal(bench.store().streams.write(runId, name, []), "INVALID_ARGUMENT");
      await h.refusal(bench.store().bundles.getAlias(name), "INVALID_ARGUMENT");
    });

    it("the longest name is taken", async () => {
      const bench = use();
      const runId = await bench.started();
      const name = "x".repeat(NAME_CHARS_MAX);
      await bench.store().blobs.put(runId, name, h.bytes("y"));
      expect(await bench.store().blobs.get(runId, name)).toEqual(h.bytes("y"));
    });
  });

  describe("limits (W16)", () => {
    it("the largest payload is taken, a byte more is refused and names its limit", async () => {
      const bench = use();
      const runId = await bench.started();
      const step = (bytes: number) =>
        h.stepCreated(h.newId("step"), { input: new Uint8Array(bytes) });
      const error = await h.refusal(
        bench.inBand(runId, step(EVENT_PAYLOAD_BYTES_MAX + 1)),
        "PAYLOAD_LIMIT_EXCEEDED",
      );
      expect(error.details).toMatchObject({
        field: "payloadBytes",
        used: EVENT_PAYLOAD_BYTES_MAX + 1,
        allowed: EVENT_PAYLOAD_BYTES_MAX,
      });
      expect((await bench.counts(runId)).seq).toBe(1);
      await bench.inBand(runId, step(EVENT_PAYLOAD_BYTES_MAX));
      const stored = (await bench.log(runId))[1]?.eventData as { input: Uint8Array };
      expect(stored.input.length).toBe(EVENT_PAYLOAD_BYTES_MAX);
    });

    it("the plain data of an event is bounded too", async () => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(
        bench.store().events.create(runId, h.attrSet("a", "x".repeat(EVENT_PLAIN_BYTES_MAX))),
        "INVALID_ARGUMENT",
      );
      expect((await bench.counts(runId)).seq).toBe(1);
    });

    it("a stream chunk of the largest size is taken, a byte more is not", async () => {
      const bench = use();
      const runId = await bench.started();
      const { streams } = bench.store();
      await h.refusal(
        streams.write(runId, "s", [h.bytes("ok"), new Uint8Array(STREAM_CHUNK_BYTES_MAX + 1)]),
        "PAYLOAD_LIMIT_EXCEEDED",
      );
      expect(await streams.getInfo(runId, "s")).toBeNull();
      expect(await streams.write(runId, "s", [new Uint8Array(STREAM_CHUNK_BYTES_MAX)])).toBe(0);
    });

    it.each([0, 1_001, -1, 1.5, Number.NaN])("a page of %s is refused", async (limit) => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(bench.store().events.list(runId, { limit }), "INVALID_ARGUMENT");
      await h.refusal(bench.store().runs.list({ limit }), "INVALID_ARGUMENT");
      await h.refusal(bench.store().steps.list(runId, { limit }), "INVALID_ARGUMENT");
    });

    it.each([-1, Number.NaN, Number.POSITIVE_INFINITY])(
      "a send delayed by %s ms is refused",
      async (delayMs) => {
        const bench = use();
        const runId = await bench.started();
        await h.refusal(bench.world.queue.send(h.wake(runId), { delayMs }), "INVALID_ARGUMENT");
      },
    );

    it.each([
      ["empty", ""],
      ["no JSON", "garbage"],
      ["an empty object", "e30"],
      ["a list", "W10"],
      ["5,000 characters", "x".repeat(5_000)],
    ])("a cursor that is %s is refused", async (_, cursor) => {
      const bench = use();
      await h.refusal(bench.store().runs.list({ cursor }), "INVALID_ARGUMENT");
    });
  });

  describe("malformed events (W16)", () => {
    const BAD: readonly [string, unknown][] = [
      ["null", null],
      ["no event", {}],
      ["an unknown type", { ...h.attrSet(), eventType: "run_exploded" }],
      ["an unknown field", { ...h.attrSet(), more: 1 }],
      ["an unknown data field", h.event({ type: "run_started" }, { extra: 1 })],
      ["a missing data field", h.event({ type: "run_completed" })],
      ["text where bytes go", h.event({ type: "run_completed" }, { output: "devl" })],
      ["an entity where none goes", { ...h.runStarted(), correlationId: h.newId("step") }],
      ["no entity where one goes", { ...h.waitCreated(), correlationId: null }],
      ["a negative time", { ...h.attrSet(), occurredAt: -1 }],
      ["a time that is no number", { ...h.attrSet(), occurredAt: "now" }],
      ["an attempt of 0", h.stepStarted(h.newId("step"), 0)],
      [
        "too many attribute changes",
        h.event(
          { type: "attr_set" },
          {
            changes: Array.from({ length: 65 }, () => ({ key: "a", value: "b" })),
            writer: { kind: "client" },
          },
        ),
      ],
    ];
    it.each(BAD)("%s is refused and writes nothing", async (_, event) => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(bench.store().events.create(runId, event as NewEvent), "INVALID_ARGUMENT");
      expect((await bench.counts(runId)).seq).toBe(1);
    });

    it.each([
      { inBand: "yes" },
      { expectedSeqInBand: -1 },
      { eventCount: 0.5 },
      { resumeId: "" },
      { unknown: 1 },
    ])("params %j are refused", async (params) => {
      const bench = use();
      const runId = await bench.started();
      await h.refusal(
        bench.store().events.create(runId, h.attrSet(), params as never),
        "INVALID_ARGUMENT",
      );
    });
  });
};
