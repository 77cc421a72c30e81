/** Requests of sandboxed steps, from the bundle to a server on this machine and back. */
import { createServer } from "node:http";
import type { Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Embedded } from "./embedded.ts";

const PROJECT = {
  "workflows/outward.ts": `
    import { fetch as fetchAsStep } from "workflow";

    async function lengthOf(url: string) {
      "use step";
      const response = await fetch(url, { headers: { authorization: "Bearer " + process.env.TOKEN } });
      let bytes = 0;
      let pieces = 0;
      for await (const piece of response.body!) { bytes += piece.length; pieces += 1; }
      return [response.status, bytes, pieces > 1];
    }

    async function post(url: string) {
      "use step";
      const { readable, writable } = new TransformStream();
      const writer = writable.getWriter();
      const answer = fetch(url, { method: "POST", body: readable, duplex: "half" } as RequestInit);
      for (const text of ["a", "b", "c"]) await writer.write(new TextEncoder().encode(text));
      await writer.close();
      return (await answer).json();
    }
    lengthOf.maxRetries = 0;
    post.maxRetries = 0;

    export async function visit(url: string) {
      "use workflow";
      try { return await lengthOf(url); } catch (error) { return (error as Error).message; }
    }
    export async function upload(url: string) { "use workflow"; return post(url); }
    export async function direct(url: string) {
      "use workflow";
      const response = await fetchAsStep(url);
      return [response.ok, await response.text()];
    }
  `,
};

let embedded: Embedded;
let server: Server;
let port: number;
const seen: unknown[] = [];

beforeAll(async () => {
  server = createServer((request, response) => {
    seen.push(request.headers.authorization);
    if (request.url === "/large") return response.end(Buffer.alloc(300_000));
    if (request.url === "/chunked") {
      for (const text of ["ch", "un", "ks"]) response.write(text);
      return response.end();
    }
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    return request.on("end", () => response.end(JSON.stringify(Buffer.concat(parts).toString())));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  ({ port } = server.address() as AddressInfo);
  embedded = await Embedded.open(PROJECT, { steps: {} });
  const { tenants } = embedded.baton;
  await tenants.setEgress("default", {
    allow: [{ host: "127.0.0.1", ports: [port] }],
    privateRanges: ["127.0.0.1/32"],
  });
  await tenants.secrets.set("default", "TOKEN", "for-the-default-tenant");
  await tenants.create("globex");
  await embedded.deploy("globex");
});
afterAll(async () => {
  await embedded[Symbol.asyncDispose]();
  server.close();
});

async function outcome(workflow: string, path: string, tenantId = "default"): Promise<unknown> {
  const url = `http://127.0.0.1:${port}${path}`;
  return (await embedded.baton.start(workflow, [url], { tenantId })).returnValue();
}

describe("a request of a sandboxed step", () => {
  it("goes where the tenant's policy allows, with its secret, and its answer streams", async () => {
    expect(await outcome("visit", "/large")).toEqual([200, 300_000, true]);
    expect(seen).toEqual(["Bearer for-the-default-tenant"]);
    const { counted } = await embedded.baton.tenants.usage("default");
    expect(counted.egressBytes).toBeGreaterThan(300_000);
  });

  it("uploads a stream", async () => {
    expect(await outcome("upload", "/")).toBe("abc");
  });

  it.each(["/", "/chunked"])("may be asked for by the workflow itself (%s)", async (path) => {
    expect(await outcome("direct", path)).toEqual([true, path === "/" ? '""' : "chunks"]);
  });

  it("of a tenant without a policy leaves nothing behind and reaches nothing", async () => {
    const before = seen.length;
    expect(await outcome("visit", "/large", "globex")).toMatch(/no egress policy/);
    expect(seen).toHaveLength(before);
    expect((await embedded.baton.tenants.usage("globex")).counted.egressBytes).toBe(0);
  });
});
