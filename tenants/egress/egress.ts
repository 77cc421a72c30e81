/**
 * The way out for tenants: the `EgressPort` over real connections, under each tenant's policy.
 *
 * Owns the connections, one set for a tenant and its policy, and follows redirects by hand: every
 * place on the way is judged as the first was (policy.ts, connections.ts).
 *
 * T55  A request is counted from before its first byte until its answer's last one was received.
 */
import type { Readable } from "node:stream";
import type { Agent, Dispatcher } from "undici";
import type { TenantId } from "../../engine/ids.ts";
import type {
  EgressAnswer,
  EgressFailure,
  EgressPort,
  EgressRequest,
} from "../../engine/ports/egress.ts";
import type { Clock } from "../../engine/ports/host.ts";
import type { UsageSample } from "../../engine/ports/tenants.ts";
import type { EgressPolicy } from "../egress-policy.ts";
import { ResponseBody, decodersOf } from "./bodies.ts";
import { EGRESS_TIMES, connectionsOf, resolveByDns } from "./connections.ts";
import type { EgressTimes, ResolveName } from "./connections.ts";
import { failureOf } from "./failures.ts";
import { denialOf } from "./policy.ts";
import { REDIRECTS_MAX, bytesOf, firstHop, isRedirect, redirected } from "./requests.ts";
import type { Hop } from "./requests.ts";
import { Traffic } from "./traffic.ts";
import type { TrafficLimits } from "./traffic.ts";

/** Tenants whose connections are kept ready; those of others are made anew. */
const TENANTS_READY_MAX = 256;

export interface EgressRules extends TrafficLimits {
  readonly policy: EgressPolicy;
}

export interface TenantEgressParts {
  /** Null: there is no such tenant. */
  rulesOf(tenantId: TenantId): Promise<EgressRules | null>;
  count(tenantId: TenantId, sample: UsageSample): void;
  readonly clock: Clock;
  /** Absent: by DNS. */
  readonly resolve?: ResolveName;
  readonly times?: EgressTimes;
}

interface Way {
  readonly policyText: string;
  readonly agent: Agent;
}

/** What one request is carried out with. */
interface Errand {
  readonly request: EgressRequest;
  readonly policy: EgressPolicy;
  readonly agent: Agent;
  readonly signal: AbortSignal;
  count(bytes: number): EgressFailure | null;
  /** The answer's last byte was received, or nobody wants it. */
  done(): void;
}

export class TenantEgress implements EgressPort {
  readonly #parts: TenantEgressParts;
  /** The one used last comes last. */
  readonly #ways = new Map<TenantId, Way>();
  readonly #traffic = new Map<TenantId, Traffic>();
  readonly #agents = new Set<Agent>();

  constructor(parts: TenantEgressParts) {
    this.#parts = parts;
  }

  async fetch(request: EgressRequest, signal: AbortSignal): Promise<EgressAnswer | EgressFailure> {
    const { tenantId } = request.run;
    const rules = await this.#parts.rulesOf(tenantId);
    const url = URL.canParse(request.url) ? new URL(request.url) : null;
    if (url === null) return { kind: "failed", reason: "the URL cannot be read" };
    if (rules === null) return { kind: "denied", reason: "there is no such tenant" };
    const denial = denialOf(rules.policy, url);
    if (denial !== null) return { kind: "denied", reason: denial };
    const hop = firstHop(request, url);
    if (hop === null) return { kind: "denied", reason: "the method is not allowed" };
    const traffic = this.#trafficOf(tenantId);
    const over = traffic.takeSocket(rules);
    if (over !== null) return over;
    let isDone = false;
    const errand: Errand = {
      request,
      policy: rules.policy,
      agent: this.#agentOf(tenantId, rules.policy),
      signal,
      count: (bytes) => {
        const excess = traffic.takeBytes(bytes, rules, this.#parts.clock.now());
        if (excess === null) this.#parts.count(tenantId, { egressBytes: bytes });
        return excess;
      },
      done: () => {
        if (!isDone) traffic.releaseSocket();
        isDone = true;
      },
    };
    const result = await follow(errand, hop);
    if (result.kind !== "answered" || result.body === null) errand.done();
    return result;
  }

  /** Ends every connection. */
  async close(): Promise<void> {
    await Promise.all([...this.#agents].map((agent) => agent.destroy()));
    this.#agents.clear();
  }

  #trafficOf(tenantId: TenantId): Traffic {
    const traffic = this.#traffic.get(tenantId) ?? new Traffic();
    this.#traffic.set(tenantId, traffic);
    return traffic;
  }

  #agentOf(tenantId: TenantId, policy: EgressPolicy): Agent {
    const policyText = JSON.stringify(policy);
    const way = this.#ways.get(tenantId);
    this.#ways.delete(tenantId);
    if (way?.policyText === policyText) {
      this.#ways.set(tenantId, way);
      return way.agent;
    }
    // Requests under way end under the rules that they began with; no new one joins them.
    if (way !== undefined) this.#retire(way.agent);
    const { clock, resolve = resolveByDns, times = EGRESS_TIMES } = this.#parts;
    const agent = connectionsOf({ policy, resolve, clock, times });
    this.#agents.add(agent);
    this.#ways.set(tenantId, { policyText, agent });
    const [oldest] = this.#ways;
    if (this.#ways.size > TENANTS_READY_MAX && oldest !== undefined) {
      this.#ways.delete(oldest[0]);
      this.#retire(oldest[1].agent);
    }
    return agent;
  }

  #retire(agent: Agent): void {
    void agent.close().finally(() => this.#agents.delete(agent));
  }
}

async function follow(errand: Errand, first: Hop): Promise<EgressAnswer | EgressFailure> {
  const { request, policy } = errand;
  let hop = first;
  for (let redirects = 0; redirects <= REDIRECTS_MAX; redirects++) {
    const answer = await exchange(errand, hop);
    if (!("statusCode" in answer)) return answer;
    const { location } = answer.headers;
    const isFollowed = isRedirect(answer.statusCode) && typeof location === "string";
    if (!isFollowed || request.redirect === "manual") {
      return answered(errand, answer, { url: hop.url, redirects, method: hop.method });
    }
    answer.body.destroy();
    if (request.redirect === "error") {
      return { kind: "failed", reason: "the answer is a redirect, which the request refuses" };
    }
    if (!URL.canParse(location, hop.url.href)) {
      return { kind: "failed", reason: "the answer redirects to what is no URL" };
    }
    const url = new URL(location, hop.url);
    const denial = denialOf(policy, url);
    if (denial !== null) return { kind: "denied", reason: `after a redirect: ${denial}` };
    const next = redirected(hop, answer.statusCode, url);
    if (next === null) {
      return { kind: "failed", reason: "a body that streams cannot follow the redirect" };
    }
    hop = next;
  }
  return { kind: "failed", reason: `the answer redirects more than ${REDIRECTS_MAX} times` };
}

async function exchange(
  errand: Errand,
  hop: Hop,
): Promise<Dispatcher.ResponseData | EgressFailure> {
  const { agent, signal } = errand;
  const over = errand.count(bytesOf(hop));
  if (over !== null) return over;
  const upload: { over: EgressFailure | null } = { over: null };
  const body = hop.body === null || hop.body instanceof Uint8Array ? hop.body : counted(hop.body);
  async function* counted(pieces: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    for await (const piece of pieces) {
      upload.over = errand.count(piece.length);
      if (upload.over !== null) throw new Error("the upload is over the tenant's allowance");
      yield piece;
    }
  }
  try {
    const answer = await agent.request({
      origin: hop.url.origin,
      path: `${hop.url.pathname}${hop.url.search}`,
      method: hop.method,
      headers: hop.headers.flat(),
      // Its types know iterables of bytes only as streams; the client takes both.
      body: body as Uint8Array | Readable | null,
      signal,
    });
    // A body that is let go of ends with an error, which must have somebody to go to.
    answer.body.on("error", () => undefined);
    return answer;
  } catch (error) {
    return upload.over ?? failureOf(error);
  }
}

function answered(
  errand: Errand,
  answer: Dispatcher.ResponseData,
  at: { readonly url: URL; readonly redirects: number; readonly method: string },
): EgressAnswer | EgressFailure {
  const { statusCode: status, statusText, body } = answer;
  const headers = headersOf(answer.headers);
  const url = new URL(at.url);
  url.hash = "";
  const head = { status, statusText, headers, url: url.href, redirected: at.redirects > 0 };
  const encoding = headers.find(([name]) => name === "content-encoding")?.[1] ?? "";
  const hasBody = at.method !== "HEAD" && ![204, 205, 304].includes(status);
  const decoders = hasBody ? decodersOf(encoding) : [];
  const over = errand.count(
    headers.reduce((sum, [name, value]) => sum + name.length + value.length, 0),
  );
  body.once("close", () => errand.done());
  if (over !== null || decoders === null) {
    body.destroy();
    return over ?? { kind: "failed", reason: "the answer's body has too many codings" };
  }
  if (!hasBody) {
    body.resume();
    return { kind: "answered", ...head, body: null };
  }
  const { responseBytesMax } = errand.request;
  const rules = { responseBytesMax, count: (bytes: number) => errand.count(bytes) };
  return { kind: "answered", ...head, body: new ResponseBody(body, decoders, rules) };
}

function headersOf(headers: Dispatcher.ResponseData["headers"]): (readonly [string, string])[] {
  return Object.entries(headers).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value ?? ""]).map((text) => [name, text] as const),
  );
}
