import { describe, expect, it } from "vitest";
import { STREAM_TAIL_AFTER_END_MS } from "../../engine/limits.ts";
import { bytesOfChunk, chunkOfBytes, payloadOfText } from "../../engine/payload.ts";
import { createRig, done, TENANT } from "./rig.ts";
import type { RigOptions } from "./rig.ts";

const chunk = (size: number) => chunkOfBytes(new Uint8Array(size));

/** A run whose one step stands still until the test lets it go. */
async function standing(options: Partial<RigOptions> = {}) {
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  const rig = createRig({
    programs: { main: async (guest) => guest.step("work") },
    steps: {
      work: async () => {
        await held;
        return done("x");
      },
    },
    ...options,
  });
  const run = await rig.start();
  await rig.settle();
  const streams = rig.engine().streamsOf(TENANT);
  const place = { runId: run.runId, name: "out" };
  return { rig, run, streams, place, release };
}

describe("a run's streams", () => {
  it("wake a reader of this process at once", async () => {
    const { rig, streams, place } = await standing();
    let read = -1;
    void streams.read(place, 0).then(({ chunks }) => (read = chunks.length));
    await rig.settle();
    expect(read).toBe(-1);
    await streams.write(place, [chunk(1), chunk(2)]);
    await rig.settle();
    expect(read).toBe(2);
  });

  it("are read from the tail by an index below 0, and from the first chunk at the earliest", async () => {
    const { streams, place } = await standing();
    await streams.write(place, [chunk(1), chunk(2), chunk(3)]);
    expect((await streams.read(place, -1)).startIndex).toBe(2);
    expect((await streams.read(place, -9)).startIndex).toBe(0);
  });

  it("end for a reader whose run ended a while ago, if nobody closed them", async () => {
    const { rig, run, streams, place } = await standing();
    await rig.engine().getRun(TENANT, run.runId).cancel();
    let isDone = false;
    void streams.read(place, 0).then(({ done: isEnd }) => (isDone = isEnd));
    await rig.advance(STREAM_TAIL_AFTER_END_MS - 1);
    expect(isDone).toBe(false);
    await rig.advance(2_001);
    expect(isDone).toBe(true);
  });

  it("of a run that is not there are at their end", async () => {
    const { streams, place } = await standing();
    const runId = `${place.runId.slice(0, -1)}0` as typeof place.runId;
    expect(await streams.read({ ...place, runId }, 0)).toMatchObject({ chunks: [], done: true });
  });

  it("hold together what the tenant allows, to the byte, whoever writes side by side", async () => {
    const { streams, place } = await standing({ limits: { streamBytesPerRunMax: 100 } });
    const other = { ...place, name: "other" };
    await streams.write(place, [new Uint8Array(40)]);
    const writes = await Promise.allSettled([
      streams.write(other, [new Uint8Array(30)]),
      streams.write(place, [new Uint8Array(30)]),
      streams.write(other, [new Uint8Array(1)]),
    ]);
    expect(writes.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected"]);
    await expect(streams.write(place, [new Uint8Array(1)])).rejects.toMatchObject({
      code: "QUOTA_EXCEEDED",
      details: { field: "streamBytesPerRunMax", used: 101, allowed: 100 },
    });
  });

  it("a reader that gives up is told so, and nothing else ends", async () => {
    const { rig, streams, place } = await standing();
    const stop = new AbortController();
    const read = streams.read(place, 0, stop.signal);
    const told = expect(read).rejects.toThrow("enough");
    await rig.settle();
    stop.abort(new Error("enough"));
    await told;
    await streams.write(place, [chunk(1)]);
    expect((await streams.read(place, 0)).chunks).toHaveLength(1);
  });
});

describe("a chunk", () => {
  it("is a frame of bytes or a value, never both", () => {
    for (const size of [0, 1, 4, 1000]) {
      expect(bytesOfChunk(chunk(size))).toEqual(new Uint8Array(size));
    }
    expect(bytesOfChunk(payloadOfText("-1"))).toBe(null);
  });

  it.each([[new Uint8Array(0)], [new Uint8Array([0, 0, 0, 2, 1])], [new Uint8Array([1])]])(
    "that is neither is refused: %s",
    (bytes) => {
      expect(() => bytesOfChunk(bytes)).toThrow("a payload or a frame");
    },
  );
});

describe("stream-flush handoff", () => {
  it("an outcome whose stream writes go on ends its delivery, and the same message goes on", async () => {
    const rig = createRig({
      programs: {
        main: async (guest) => (await guest.step("stream")) + (await guest.step("after")),
      },
      steps: {
        stream: () => ({ ...done("a"), isFlushing: true as const }),
        after: () => done("b"),
      },
    });
    const run = await rig.start();
    await rig.settle();
    expect(await rig.output(run)).toBe("ab");
    expect(rig.deliveries.map(({ answer }) => answer)).toEqual([
      { kind: "handoff" },
      { kind: "ack" },
    ]);
    expect(rig.deliveries.map(({ meta }) => meta.attempt)).toEqual([1, 1]);
  });
});
