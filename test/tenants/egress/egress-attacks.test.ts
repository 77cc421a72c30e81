/**
 * Ways out that a hostile step tries. Each is refused by one check; beside it stands the same request
 * where that check has nothing to object to, which succeeds.
 */
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, it, vi } from "vitest";
import type { ResolvedAddress } from "../../../tenants/egress/connections.ts";
import { REDIRECTS_MAX } from "../../../tenants/egress/requests.ts";
import { Outside, bodyOf, get, loopbackPolicy, textOf, textOrFailure } from "./outside.ts";

let outside = new Outside();
afterEach(async () => {
  await outside.close();
  outside = new Outside();
});

function withoutPrivate(port: number) {
  return { ...loopbackPolicy([port]), privateRanges: [] };
}

describe("an address of this machine", () => {
  it.each([
    "127.0.0.1",
    "127.1",
    "0177.0.0.1",
    "0x7f.0.0.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "127.0.0.1.",
    "１２７.0.0.1",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:1]",
  ])("written as %s is not reached", async (host) => {
    const port = await outside.serve((_, response) => response.end("inside"));
    const strict = outside.egress({ policy: withoutPrivate(port) });
    expect(await get(strict, `http://${host}:${port}/`)).toEqual({
      kind: "denied",
      reason: expect.stringContaining("an address that the egress policy does not allow") as string,
    });
    if (host.includes("::1")) return;
    const lax = outside.egress({ policy: loopbackPolicy([port]) });
    expect(await textOf(await get(lax, `http://${host}:${port}/`))).toBe("inside");
  });

  it.each([
    [{ address: "127.0.0.1", family: 4 }],
    [{ address: "::ffff:127.0.0.1", family: 6 }],
    [
      { address: "1.1.1.1", family: 4 },
      { address: "127.0.0.1", family: 4 },
    ],
  ] as ResolvedAddress[][])("is not reached by a name that resolves to it", async (...found) => {
    const port = await outside.serve((_, response) => response.end("inside"));
    const strict = outside.egress({ policy: withoutPrivate(port) }, () => Promise.resolve(found));
    expect(await get(strict, `http://innocent.test:${port}/`)).toEqual({
      kind: "denied",
      reason: "innocent.test is at an address that the egress policy does not allow",
    });
  });

  it("is not reached by a resolver that changes its answer", async () => {
    const port = await outside.serve((_, response) => response.end("inside"));
    let asked = 0;
    const egress = outside.egress({ policy: withoutPrivate(port) }, () => {
      asked += 1;
      // Public at the first look, ours at every later one.
      return Promise.resolve([{ address: asked === 1 ? "192.0.2.1" : "127.0.0.1", family: 4 }]);
    });
    for (let i = 0; i < 3; i++) {
      expect(await get(egress, `http://rebinding.test:${port}/`)).toMatchObject({ kind: "denied" });
    }
    // One answer for one connection: nothing is resolved between the check and the connecting.
    expect(asked).toBe(3);
  });

  it("that the policy names is reached only in the ranges that the operator opened", async () => {
    const port = await outside.serve((_, response) => response.end("inside"));
    const elsewhere = { ...loopbackPolicy([port]), privateRanges: ["10.0.0.0/8"] };
    const url = `http://127.0.0.1:${port}/`;
    expect(await get(outside.egress({ policy: elsewhere }), url)).toMatchObject({ kind: "denied" });
    const opened = { ...elsewhere, privateRanges: ["127.0.0.1/32"] };
    expect(await textOf(await get(outside.egress({ policy: opened }), url))).toBe("inside");
  });
});

describe("a redirect", () => {
  it.each([301, 302, 303, 307, 308])(
    "by %i inwards is judged like a first request",
    async (code) => {
      const inside = await outside.serve((_, response) => response.end("inside"));
      const port = await outside.serve((_, response) => {
        response.writeHead(code, { location: `http://127.0.0.1:${inside}/` }).end();
      });
      const url = `http://api.test:${port}/`;
      const strict = outside.egress({ policy: loopbackPolicy([port]) });
      expect(await get(strict, url)).toEqual({
        kind: "denied",
        reason: expect.stringMatching(/^after a redirect: /) as string,
      });
      const lax = outside.egress({ policy: loopbackPolicy([port, inside]) });
      expect(await textOf(await get(lax, url))).toBe("inside");
    },
  );

  it("to a name that resolves inwards is denied", async () => {
    const inside = await outside.serve((_, response) => response.end("inside"));
    const port = await outside.serve((_, response) => {
      response.writeHead(302, { location: `http://inwards.test:${inside}/` }).end();
    });
    const policy = { ...loopbackPolicy([port, inside]), privateRanges: ["127.0.0.1/32"] };
    const egress = outside.egress({ policy }, (name) =>
      Promise.resolve([
        { address: name === "inwards.test" ? "127.0.0.2" : "127.0.0.1", family: 4 },
      ]),
    );
    expect(await get(egress, `http://api.test:${port}/`)).toMatchObject({ kind: "denied" });
  });

  it.each([
    ["file:///etc/passwd", /only http: and https:/],
    ["http://user:x@api.test/", /no credentials/],
  ])("to %s is denied", async (location, reason) => {
    const port = await outside.serve((_, response) => response.writeHead(302, { location }).end());
    const egress = outside.egress({ policy: loopbackPolicy([port, 80]) });
    expect(await get(egress, `http://api.test:${port}/`)).toMatchObject({
      reason: expect.stringMatching(reason) as string,
    });
  });

  it("takes credentials along within its origin, and never to another", async () => {
    const seen: unknown[] = [];
    const other = await outside.serve(({ headers }, response) => {
      seen.push([headers.authorization, headers.cookie, headers["x-a"]]);
      response.end();
    });
    const port = await outside.serve(({ url, headers }, response) => {
      seen.push([headers.authorization, headers.cookie, headers["x-a"]]);
      const location = url === "/a" ? "/b" : `http://api.test:${other}/`;
      response.writeHead(307, { location }).end();
    });
    const egress = outside.egress({ policy: loopbackPolicy([port, other]) });
    const headers = [
      ["Authorization", "Bearer x"],
      ["Cookie", "a=b"],
      ["X-A", "1"],
    ] as const;
    await get(egress, `http://api.test:${port}/a`, { headers });
    expect(seen).toEqual([
      ["Bearer x", "a=b", "1"],
      ["Bearer x", "a=b", "1"],
      [undefined, undefined, "1"],
    ]);
  });

  it.each([
    [301, "POST", "GET", ""],
    [303, "PUT", "GET", ""],
    [307, "POST", "POST", "x"],
    [308, "PUT", "PUT", "x"],
  ])("by %i of a %s becomes a %s", async (code, method, next, body) => {
    const port = await outside.serve((request, response) => {
      if (request.url === "/") response.writeHead(code, { location: "/next" }).end();
      else void bodyOf(request).then((text) => response.end(`${request.method} ${text}`));
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]) });
    const sent = { method, body: Buffer.from("x") };
    const answer = await get(egress, `http://api.test:${port}/`, sent);
    expect(answer).toMatchObject({ redirected: true, url: `http://api.test:${port}/next` });
    expect(await textOf(answer)).toBe(`${next} ${body}`);
  });

  it("is left to the caller, or an error, as the request says; and an endless one ends", async () => {
    let hops = 0;
    const port = await outside.serve((_, response) => {
      hops += 1;
      response.writeHead(302, { location: "/again" }).end("moved");
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]) });
    const url = `http://api.test:${port}/`;
    const manual = await get(egress, url, { redirect: "manual" });
    expect(manual).toMatchObject({ status: 302, redirected: false });
    expect(await textOf(manual)).toBe("moved");
    expect(await get(egress, url, { redirect: "error" })).toMatchObject({ kind: "failed" });
    hops = 0;
    expect(await get(egress, url)).toMatchObject({ kind: "failed" });
    expect(hops).toBe(REDIRECTS_MAX + 1);
  });
});

describe("an answer that is too much", () => {
  it("is cut off where a small body turns into a large one", async () => {
    const bomb = gzipSync(Buffer.alloc(64 << 20));
    expect(bomb.length).toBeLessThan(1 << 17);
    const port = await outside.serve((_, response) => {
      response.setHeader("content-encoding", "gzip").end(bomb);
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]) });
    const url = `http://api.test:${port}/`;
    expect(await textOrFailure(await get(egress, url))).toMatchObject({
      kind: "over",
      limit: "responseBytesMax",
      allowed: 1 << 20,
    });
    const enough = { responseBytesMax: 64 << 20 };
    expect(await textOf(await get(egress, url, enough))).toHaveLength(64 << 20);
  });

  it("is cut off after exactly its limit, also if it says it is smaller or never ends", async () => {
    const port = await outside.serve((request, response) => {
      if (request.url === "/exact") return response.end(Buffer.alloc(1000));
      const write = (): unknown => response.write(Buffer.alloc(10_000), () => setImmediate(write));
      return write();
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]) });
    const limited = { responseBytesMax: 1000 };
    expect(await textOf(await get(egress, `http://api.test:${port}/exact`, limited))).toHaveLength(
      1000,
    );
    expect(
      await textOrFailure(await get(egress, `http://api.test:${port}/`, limited)),
    ).toMatchObject({ kind: "over", limit: "responseBytesMax" });
  });

  it("with too many codings, or heads that never end, is refused", async () => {
    const port = await outside.serve((request, response) => {
      if (request.url === "/codings") {
        response.setHeader("content-encoding", "gzip,gzip,gzip,gzip").end("x");
      } else response.setHeader("x-long", "x".repeat(100_000)).end();
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]) });
    expect(await get(egress, `http://api.test:${port}/codings`)).toMatchObject({ kind: "failed" });
    expect(await get(egress, `http://api.test:${port}/`)).toEqual({
      kind: "failed",
      reason: "the answer's headers are too large",
    });
  });
});

describe("an answer that is slow", () => {
  it("ends where nothing comes for too long: before its head, and in its body", async () => {
    const port = await outside.serve((request, response) => {
      if (request.url === "/body") response.write("a");
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]) });
    expect(await get(egress, `http://api.test:${port}/`)).toEqual({
      kind: "failed",
      reason: "no answer came in time",
    });
    expect(await textOrFailure(await get(egress, `http://api.test:${port}/body`))).toEqual({
      kind: "failed",
      reason: "the answer's body paused for too long",
    });
  });
});

describe("a tenant's share of the wire", () => {
  it("is so many requests at once; each ends with its answer's last byte", async () => {
    const ends: (() => void)[] = [];
    const port = await outside.serve((_, response) => {
      ends.push(() => response.end("x"));
    });
    const egress = outside.egress({ policy: loopbackPolicy([port]), socketsMax: 2 });
    const url = `http://api.test:${port}/`;
    const first = [get(egress, url), get(egress, url)];
    await vi.waitFor(() => expect(ends).toHaveLength(2));
    expect(await get(egress, url)).toEqual({
      kind: "over",
      limit: "socketsMax",
      used: 3,
      allowed: 2,
    });
    for (const end of ends) end();
    for (const answer of first) expect(await textOf(await answer)).toBe("x");
  });

  it("is not held by a short answer that nobody reads", async () => {
    const port = await outside.serve((_, response) => response.end("x"));
    const egress = outside.egress({ policy: loopbackPolicy([port]), socketsMax: 1 });
    for (let i = 0; i < 3; i++) {
      await vi.waitFor(async () =>
        expect(await get(egress, `http://api.test:${port}/`)).toMatchObject({ kind: "answered" }),
      );
    }
  });

  it("is so many bytes a minute, in both directions and for all requests together", async () => {
    const port = await outside.serve((request, response) => {
      request.resume().on("end", () => response.end(Buffer.alloc(1000)));
    });
    const egress = outside.egress({
      policy: loopbackPolicy([port]),
      egressBytesPerMinuteMax: 20_000,
    });
    const url = `http://api.test:${port}/`;
    const sent = { method: "POST", body: Buffer.alloc(9000) };
    expect(await textOf(await get(egress, url, sent))).toHaveLength(1000);
    expect(await get(egress, url, { ...sent, body: Buffer.alloc(10_000) })).toMatchObject({
      kind: "over",
      limit: "egressBytesPerMinuteMax",
      allowed: 20_000,
    });
    async function* endless() {
      for (;;) yield await Promise.resolve(Buffer.alloc(1000));
    }
    expect(await get(egress, url, { method: "POST", body: endless() })).toMatchObject({
      kind: "over",
      limit: "egressBytesPerMinuteMax",
    });
  });
});
