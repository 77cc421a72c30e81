/** What the tests of egress share: servers on this machine, and a tenant's way to them. */
import { createServer } from "node:http";
import type { IncomingMessage, RequestListener, Server } from "node:http";
import type { AddressInfo } from "node:net";
import { runIdOf, tenantIdOf } from "../../../engine/ids.ts";
import type { EgressAnswer, EgressFailure, EgressRequest } from "../../../engine/ports/egress.ts";
import { NO_EGRESS } from "../../../tenants/egress-policy.ts";
import type { EgressPolicy } from "../../../tenants/egress-policy.ts";
import { EGRESS_TIMES } from "../../../tenants/egress/connections.ts";
import type { ResolveName } from "../../../tenants/egress/connections.ts";
import { TenantEgress } from "../../../tenants/egress/egress.ts";
import type { EgressRules } from "../../../tenants/egress/egress.ts";
import { systemClock } from "../../../worlds/platform.ts";

export const ACME = {
  tenantId: tenantIdOf("acme"),
  runId: runIdOf("wrun_01J00000000000000000000000"),
};

const NO_LIMITS = { socketsMax: null, egressBytesPerMinuteMax: null };

export class Outside {
  readonly #servers: Server[] = [];
  readonly #egresses: TenantEgress[] = [];
  egressBytes = 0;

  /** The port of a server that answers so. */
  async serve(listener: RequestListener): Promise<number> {
    const server = createServer(listener);
    this.#servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  }

  /** What `rules` say holds when a request is made. */
  egress(rules: Partial<EgressRules>, resolve: ResolveName = toLoopback): TenantEgress {
    const egress = new TenantEgress({
      rulesOf: () => Promise.resolve({ ...NO_LIMITS, policy: NO_EGRESS, ...rules }),
      count: (_, { egressBytes = 0 }) => (this.egressBytes += egressBytes),
      clock: systemClock,
      resolve,
      times: { ...EGRESS_TIMES, bodyPauseMsMax: 300, headMsMax: 1_000, resolveMsMax: 300 },
    });
    this.#egresses.push(egress);
    return egress;
  }

  async close(): Promise<void> {
    for (const egress of this.#egresses) await egress.close();
    for (const server of this.#servers) {
      server.closeAllConnections();
      server.close();
    }
  }
}

export const toLoopback: ResolveName = () => Promise.resolve([{ address: "127.0.0.1", family: 4 }]);

/** Everything on this machine may be reached, by any name, on these ports. */
export function loopbackPolicy(ports: number[]): EgressPolicy {
  const hosts = ["*", "127.0.0.1", "::1", "::ffff:7f00:1"];
  return {
    allow: hosts.map((host) => ({ host, ports })),
    privateRanges: ["127.0.0.0/8", "::1/128"],
  };
}

export function requestTo(url: string, more: Partial<EgressRequest> = {}): EgressRequest {
  return {
    run: ACME,
    url,
    method: "GET",
    headers: [],
    redirect: "follow",
    body: null,
    responseBytesMax: 1 << 20,
    ...more,
  };
}

export function get(
  egress: TenantEgress,
  url: string,
  more: Partial<EgressRequest> = {},
  signal: AbortSignal = new AbortController().signal,
): Promise<EgressAnswer | EgressFailure> {
  return egress.fetch(requestTo(url, more), signal);
}

/** The whole body of an answer as text; where there is none, why. */
export async function textOf(result: EgressAnswer | EgressFailure): Promise<string> {
  const text = await textOrFailure(result);
  return typeof text === "string" ? text : JSON.stringify(text);
}

/** The whole body of an answer as text, or why there is none. */
export async function textOrFailure(
  result: EgressAnswer | EgressFailure,
): Promise<string | EgressFailure> {
  if (result.kind !== "answered") return result;
  const parts: Uint8Array[] = [];
  for (;;) {
    const piece = (await result.body?.read()) ?? { kind: "end" };
    if (piece.kind === "end") return Buffer.concat(parts).toString();
    if (piece.kind !== "bytes") return piece;
    parts.push(piece.bytes);
  }
}

export async function bodyOf(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}
