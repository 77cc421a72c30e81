import { gzipSync, brotliCompressSync, deflateSync } from "node:zlib";
import { afterEach, describe, expect, it, vi } from "vitest";
import { Outside, bodyOf, get, loopbackPolicy, textOf, textOrFailure } from "./outside.ts";

let outside = new Outside();
afterEach(async () => {
  await outside.close();
  outside = new Outside();
});

/** A server that says what it was asked, and a way to it. */
async function echo() {
  const port = await outside.serve((request, response) => {
    void bodyOf(request).then((body) => {
      const { method, url, headers } = request;
      response.setHeader("x-r", ["1", "2"]).end(JSON.stringify({ method, url, headers, body }));
    });
  });
  return { port, egress: outside.egress({ policy: loopbackPolicy([port]) }) };
}

async function echoed(result: Awaited<ReturnType<typeof get>>) {
  return JSON.parse(await textOf(result)) as {
    method: string;
    url: string;
    headers: Record<string, string>;
    body: string;
  };
}

describe("a request that the policy allows", () => {
  it("arrives as it was asked for, and its answer comes back whole", async () => {
    const { port, egress } = await echo();
    const result = await get(egress, `http://api.test:${port}/a?b=1#c`, {
      method: "PUT",
      headers: [
        ["X-A", "b"],
        ["content-type", "text/x"],
      ],
      body: Buffer.from("ä"),
    });
    expect(result).toMatchObject({
      kind: "answered",
      status: 200,
      statusText: "OK",
      url: `http://api.test:${port}/a?b=1`,
      redirected: false,
    });
    if (result.kind === "answered") expect(result.headers).toContainEqual(["x-r", "2"]);
    expect(await echoed(result)).toMatchObject({
      method: "PUT",
      url: "/a?b=1",
      headers: { "x-a": "b", "content-type": "text/x", host: `api.test:${port}` },
      body: "ä",
    });
  });

  it("streams its body as it comes", async () => {
    const { port, egress } = await echo();
    async function* pieces() {
      for (const text of ["a", "b", "c"]) yield await Promise.resolve(Buffer.from(text));
    }
    const result = await get(egress, `http://api.test:${port}/`, {
      method: "POST",
      body: pieces(),
    });
    expect((await echoed(result)).body).toBe("abc");
  });

  it("cannot set what belongs to the connection", async () => {
    const { port, egress } = await echo();
    const forbidden = [
      ["Host", "internal.test"],
      ["Connection", "upgrade"],
      ["Transfer-Encoding", "chunked"],
      ["Content-Length", "5"],
      ["Proxy-Authorization", "x"],
      ["Upgrade", "h2c"],
    ] as const;
    const { headers } = await echoed(
      await get(egress, `http://api.test:${port}/`, { headers: forbidden }),
    );
    expect(headers["host"]).toBe(`api.test:${port}`);
    expect(headers).not.toHaveProperty("upgrade");
    expect(headers).not.toHaveProperty("proxy-authorization");
    expect(headers).not.toHaveProperty("content-length");
  });

  it.each([
    ["gzip", gzipSync],
    ["br", brotliCompressSync],
    ["deflate", deflateSync],
  ] as const)("has a body in %s decompressed", async (coding, compress) => {
    const port = await outside.serve((_, response) => {
      response.setHeader("content-encoding", coding).end(compress("plain"));
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]) });
    expect(await textOf(await get(egress, `http://api.test:${port}/`))).toBe("plain");
  });

  it("is counted, both ways, for the tenant", async () => {
    const { port, egress } = await echo();
    await textOf(
      await get(egress, `http://api.test:${port}/`, { method: "POST", body: Buffer.alloc(5000) }),
    );
    expect(outside.egressBytes).toBeGreaterThan(10_000);
  });
});

describe("a request that goes wrong", () => {
  it.each([
    ["not a url", {}, /cannot be read/],
    ["ftp://api.test/", {}, /only http: and https:/],
    ["file:///etc/passwd", {}, /only http: and https:/],
    ["https://user:secret@api.test/", {}, /no credentials/],
    ["https://api.test/", { method: "CONNECT" }, /method is not allowed/],
    ["https://api.test/", { method: "trace" }, /method is not allowed/],
    ["https://api.test/", { method: "GET / HTTP/1.1\r\nx: y" }, /method is not allowed/],
  ] as const)("%s %j is refused before a connection is made", async (url, more, reason) => {
    const egress = outside.egress({ policy: loopbackPolicy([80, 443]) }, () => {
      throw new Error("no name is resolved");
    });
    expect(await get(egress, url, more)).toMatchObject({
      reason: expect.stringMatching(reason) as string,
    });
  });

  it("has no line break in a header", async () => {
    const { port, egress } = await echo();
    const result = await get(egress, `http://api.test:${port}/`, { headers: [["x", "a\r\ny: b"]] });
    expect(result).toEqual({ kind: "failed", reason: expect.stringContaining("header") as string });
  });

  it("says that nobody listens, and nothing of where", async () => {
    const port = await outside.serve(() => undefined);
    await outside.close();
    const egress = outside.egress({ policy: loopbackPolicy([port]) });
    expect(await get(egress, `http://api.test:${port}/`)).toEqual({
      kind: "failed",
      reason: "the connection was refused",
    });
  });

  it("says that a name is not known, also if its resolver never answers", async () => {
    const policy = loopbackPolicy([80]);
    for (const resolve of [
      () => Promise.resolve([]),
      () => Promise.reject(new Error("SERVFAIL at 10.0.0.2")),
      () => new Promise<never>(() => undefined),
    ]) {
      const egress = outside.egress({ policy }, resolve);
      expect(await get(egress, "http://api.test/")).toEqual({
        kind: "failed",
        reason: "the name api.test could not be resolved",
      });
    }
  });

  it("does not speak HTTP, or breaks its compression", async () => {
    const port = await outside.serve((request, response) => {
      if (request.url === "/broken") {
        response.setHeader("content-encoding", "gzip").end("no gzip");
      } else request.socket.end("SSH-2.0-x\r\n");
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]) });
    expect(await get(egress, `http://api.test:${port}/`)).toEqual({
      kind: "failed",
      reason: "the answer is not HTTP",
    });
    expect(await textOrFailure(await get(egress, `http://api.test:${port}/broken`))).toEqual({
      kind: "failed",
      reason: "the answer's body cannot be decompressed",
    });
  });
});

describe("the end of a request", () => {
  it("by its signal ends it before its answer, and in the middle of its body", async () => {
    let arrived = 0;
    let closed = 0;
    const port = await outside.serve((request, response) => {
      arrived += 1;
      response.on("close", () => (closed += 1));
      if (request.url === "/body") response.write("a");
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]), socketsMax: 1 });
    const early = new AbortController();
    const waiting = get(egress, `http://api.test:${port}/`, {}, early.signal);
    await vi.waitFor(() => expect(arrived).toBe(1));
    early.abort();
    expect(await waiting).toEqual({ kind: "failed", reason: "the request was aborted" });
    const late = new AbortController();
    const answer = await get(egress, `http://api.test:${port}/body`, {}, late.signal);
    const text = textOrFailure(answer);
    late.abort();
    expect(await text).toEqual({ kind: "failed", reason: "the request was aborted" });
    await vi.waitFor(() => expect(closed).toBe(2));
    expect(await get(egress, `http://api.test:${port}/body`)).toMatchObject({ kind: "answered" });
  });

  it("is not brought about by a change of the policy, which judges the next request", async () => {
    let end: () => void = () => undefined;
    const port = await outside.serve((_, response) => {
      response.write("a");
      end = () => response.end("b");
    });
    const rules = { policy: loopbackPolicy([port]) };
    const egress = outside.egress(rules);
    const answer = await get(egress, `http://api.test:${port}/`);
    rules.policy = loopbackPolicy([port + 1]);
    expect(await get(egress, `http://api.test:${port}/`)).toMatchObject({ kind: "denied" });
    end();
    expect(await textOf(answer)).toBe("ab");
    rules.policy = { ...loopbackPolicy([port]), privateRanges: [] };
    expect(await get(egress, `http://api.test:${port}/`)).toMatchObject({ kind: "denied" });
  });
});
