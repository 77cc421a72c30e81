/**
 * Where a tenant's sandboxed steps may send requests: the policy as it stands in the tenant's record.
 *
 * Owns the form of a policy, and whether a host and port are named by it. Pure: resolves no name and
 * opens no socket. Whether an address is private is decided by whoever connects; only an address
 * within `privateRanges` may be one.
 *
 * T40  A tenant without a policy reaches nothing, and a policy reaches only what it names: no rule
 *      stands for a private address unless the operator put its range into `privateRanges`.
 */
import { isIP } from "node:net";
import { z } from "zod";

const RULES_MAX = 200;
const PORTS_MAX = 32;
const RANGES_MAX = 64;

const LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?";
const HOST_NAME = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`);

/** One host in the form in which requests are compared: lower case, without brackets or dots around. */
const hostSchema = z
  .string()
  .max(253)
  .refine(isHostPattern, "a host name or address in lower case, *.name for all below it, or *");

const cidrSchema = z
  .string()
  .max(64)
  .refine(isRange, "an address, a slash, and how many of its bits count");

const ruleSchema = z.strictObject({
  host: hostSchema,
  /** 443 alone if absent. */
  ports: z.array(z.number().int().min(1).max(65_535)).min(1).max(PORTS_MAX).optional(),
});

export const egressPolicySchema = z.strictObject({
  /** A request leaves if one of these names its host and port. */
  allow: z.array(ruleSchema).max(RULES_MAX),
  /**
   * Ranges of private, loopback or link-local addresses that the allowed hosts may be at, such as
   * `10.1.0.0/16`. The operator's to set: no door of a tenant may pass it on.
   */
  privateRanges: z.array(cidrSchema).max(RANGES_MAX).default([]),
});

export type EgressRule = z.infer<typeof ruleSchema>;
export type EgressPolicy = z.infer<typeof egressPolicySchema>;
/** As callers write it: what has a default may be left out. */
export type EgressPolicyInput = z.input<typeof egressPolicySchema>;

/** Nothing leaves. */
export const NO_EGRESS: EgressPolicy = { allow: [], privateRanges: [] };

/**
 * Whether the policy names this host and port. `host` is as the URL parser gives it, with the
 * brackets of an IPv6 address and the dot at a name's end taken off.
 */
export function isAllowed(policy: EgressPolicy, host: string, port: number): boolean {
  return policy.allow.some(
    (rule) => covers(rule.host, host) && (rule.ports ?? [443]).includes(port),
  );
}

function covers(pattern: string, host: string): boolean {
  if (pattern === host) return true;
  // An address is named by itself only: neither `*` nor `*.1` is meant to be one.
  if (isIP(host) !== 0) return false;
  if (pattern === "*") return true;
  return pattern.startsWith("*.") && host.endsWith(pattern.slice(1));
}

function isHostPattern(host: string): boolean {
  if (host === "*" || isIP(host) !== 0) return true;
  return HOST_NAME.test(host.startsWith("*.") ? host.slice(2) : host);
}

function isRange(text: string): boolean {
  const [, address = "", bits = ""] = /^([0-9a-f.:]+)\/(\d{1,3})$/.exec(text) ?? [];
  const family = isIP(address);
  return family !== 0 && Number(bits) <= (family === 4 ? 32 : 128);
}
