/**
 * Connections of one tenant under one policy.
 *
 * Owns the resolving of names and the check of what they resolve to. A name is resolved for each
 * connection that is made, and the connection goes to an address of that answer.
 *
 * T52  Every address of the answer was checked, so a resolver that changes its answer gains nothing.
 */
import { Resolver } from "node:dns/promises";
import type { LookupFunction } from "node:net";
import { Agent } from "undici";
import type { Clock } from "../../engine/ports/host.ts";
import type { EgressPolicy } from "../egress-policy.ts";
import { mayConnect, unreachable } from "./policy.ts";

export interface ResolvedAddress {
  readonly address: string;
  readonly family: 4 | 6;
}

/** All addresses of a name; rejects if there are none. */
export type ResolveName = (name: string) => Promise<readonly ResolvedAddress[]>;

export interface EgressTimes {
  readonly resolveMsMax: number;
  readonly connectMsMax: number;
  /** From the request to the head of its answer. */
  readonly headMsMax: number;
  /** Between two pieces of a body. */
  readonly bodyPauseMsMax: number;
}

export const EGRESS_TIMES: EgressTimes = {
  resolveMsMax: 5_000,
  connectMsMax: 10_000,
  headMsMax: 60_000,
  bodyPauseMsMax: 60_000,
};

/** What a tenant's other side may say before its body, in bytes. */
const HEAD_BYTES_MAX = 32 * 1024;
/** An idle connection is not kept for longer, whatever the other side offers. */
const IDLE_MS_MAX = 4_000;

/** The policy does not allow what a name resolved to. */
export class AddressDenied extends Error {}
/** The name has no address, or none was found in time. */
export class NameUnknown extends Error {}

/** Asks the resolvers that the machine is set up with, and no file of it. */
export async function resolveByDns(name: string): Promise<ResolvedAddress[]> {
  // One for each look-up: the waiting must not take a thread that files and zlib need.
  const resolver = new Resolver({ timeout: 2_000, tries: 2 });
  const [v4, v6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const found: ResolvedAddress[] = [];
  if (v4.status === "fulfilled") for (const address of v4.value) found.push({ address, family: 4 });
  if (v6.status === "fulfilled") for (const address of v6.value) found.push({ address, family: 6 });
  return found;
}

export interface ConnectionParts {
  readonly policy: EgressPolicy;
  readonly resolve: ResolveName;
  readonly clock: Clock;
  readonly times: EgressTimes;
}

export function connectionsOf(parts: ConnectionParts): Agent {
  const { times } = parts;
  const lookup: LookupFunction = (name, options, done) => {
    checkedAddresses(name, parts).then(
      (found) => {
        const [first] = found;
        if (options.all === true) return done(null, [...found]);
        return done(null, first?.address ?? "", first?.family ?? 0);
      },
      (error: Error) => done(error, []),
    );
  };
  return new Agent({
    allowH2: false,
    pipelining: 1,
    connect: { lookup, timeout: times.connectMsMax },
    headersTimeout: times.headMsMax,
    bodyTimeout: times.bodyPauseMsMax,
    maxHeaderSize: HEAD_BYTES_MAX,
    keepAliveTimeout: IDLE_MS_MAX,
    keepAliveMaxTimeout: IDLE_MS_MAX,
  });
}

/** Rejects with `NameUnknown`, or with `AddressDenied` if a single one may not be connected to. */
async function checkedAddresses(
  name: string,
  { policy, resolve, clock, times }: ConnectionParts,
): Promise<readonly ResolvedAddress[]> {
  const unknown = () => new NameUnknown(`the name ${name} could not be resolved`);
  let stop = (): void => undefined;
  const late = new Promise<never>((_, reject) => {
    stop = clock.setTimer(times.resolveMsMax, () => reject(unknown()));
  });
  const looking = resolve(name).catch(() => []);
  const found = await Promise.race([looking, late]).finally(() => stop());
  if (found.length === 0) throw unknown();
  if (found.some(({ address }) => !mayConnect(policy, address))) {
    throw new AddressDenied(unreachable(name));
  }
  return found;
}
