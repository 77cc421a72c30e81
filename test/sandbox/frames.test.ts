import { array, assert, integer, property, record, string, uint8Array } from "fast-check";
import { describe, expect, it } from "vitest";
import { answerIn, incidentIn } from "../../sandbox/answers.ts";
import { FrameReader, FrameRefused, frameOf } from "../../sandbox/frames.ts";

describe("frames", () => {
  it("messages and their bytes come back whole, however the stream cuts them", () => {
    const message = record({
      text: string(),
      bytes: uint8Array(),
      list: array(record({ more: uint8Array(), n: integer() })),
    });
    assert(
      property(array(message), integer({ min: 1, max: 40 }), (messages, cut) => {
        const stream = Buffer.concat(messages.map(frameOf));
        const reader = new FrameReader();
        const read: unknown[] = [];
        for (let at = 0; at < stream.length; at += cut) {
          read.push(...reader.push(stream.subarray(at, at + cut)));
        }
        expect(read).toEqual(messages);
      }),
    );
  });

  it("a length beyond what is allowed is refused before anything of it is read", () => {
    const head = Buffer.alloc(8);
    head.writeUInt32LE(0xffff_ffff, 0);
    expect(() => new FrameReader().push(head)).toThrow(FrameRefused);
    head.writeUInt32LE(2, 0);
    head.writeUInt32LE(0xffff_ffff, 4);
    expect(() => new FrameReader().push(head)).toThrow(FrameRefused);
  });

  it("bytes outside of their frame, and what is no JSON, are refused", () => {
    for (const json of [`{"$bytes":[0,9]}`, `{"$bytes":[2,1]}`, `{"$bytes":"x"}`, `{`]) {
      const head = Buffer.alloc(8);
      head.writeUInt32LE(json.length, 0);
      head.writeUInt32LE(4, 4);
      const frame = Buffer.concat([head, Buffer.from(json), Buffer.alloc(4)]);
      expect(() => new FrameReader().push(frame)).toThrow(FrameRefused);
    }
  });
});

describe("answers of a guest host", () => {
  const kindOf = () => "pass" as const;
  const usage = { cpuMs: 1, heapBytes: 5 };
  const report = { kind: "report", text: "{}", isFull: false, usage };

  it("the right answer to what was ordered is taken", () => {
    expect(answerIn({ number: 1, answer: report }, kindOf)).toEqual({ number: 1, answer: report });
  });

  it("answers to nothing, of another kind, or with anything more are refused", () => {
    expect(answerIn({ number: 1, answer: report }, () => undefined)).toBeNull();
    expect(answerIn({ number: 1, answer: report }, () => "open")).toBeNull();
    for (const answer of [
      { ...report, more: 1 },
      { ...report, usage: { cpuMs: -1, heapBytes: 5 } },
      { ...report, usage: { cpuMs: Number.NaN, heapBytes: 5 } },
      { ...report, text: 5 },
      { kind: "limit", exceeded: { code: "RUN_FAILED", limit: "x", used: 1, allowed: 0 }, usage },
      JSON.parse(`{"kind":"lost","reason":"x","__proto__":{}}`),
      null,
    ]) {
      expect(answerIn({ number: 1, answer }, kindOf)).toBeNull();
    }
    expect(
      incidentIn({ incident: { kind: "else", reason: "", tenantId: null, runId: null } }),
    ).toBeNull();
  });
});
