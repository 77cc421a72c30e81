/**
 * Which calls go into the next transaction, where more wait than one takes: tenants by turns, each
 * one's calls in their order. Pure.
 *
 * W34  A call waits for one transaction and a share of the next, however many calls of one other
 *      tenant wait before it.
 */
import type { LedgerCall } from "../ledger.ts";

export interface Chosen<T> {
  readonly batch: readonly T[];
  readonly left: T[];
}

/** At most `max` of those that wait, and the others in their order. */
export function fairBatch<T extends { readonly call: LedgerCall }>(
  waiting: readonly T[],
  max: number,
): Chosen<T> {
  if (waiting.length <= max) return { batch: waiting, left: [] };
  const lines = new Map<string, T[]>();
  for (const one of waiting) {
    const line = lines.get(ownerOf(one.call)) ?? [];
    line.push(one);
    lines.set(ownerOf(one.call), line);
  }
  const chosen = new Set<T>();
  for (let place = 0; chosen.size < max; place++) {
    for (const line of lines.values()) {
      const one = line[place];
      if (one !== undefined && chosen.size < max) chosen.add(one);
    }
  }
  return { batch: [...chosen], left: waiting.filter((one) => !chosen.has(one)) };
}

/** The tenant whose data a call is about; calls of nobody's data are one line of their own. */
function ownerOf({ part, args }: LedgerCall): string {
  const [first] = args;
  const about: unknown = Array.isArray(first) ? first[0] : first;
  if (typeof about === "string") return part === "queue" ? "" : about;
  if (typeof about !== "object" || about === null) return "";
  return tenantIn(about) ?? ("message" in about ? (tenantIn(about.message) ?? "") : "");
}

function tenantIn(value: unknown): string | null {
  if (typeof value !== "object" || value === null || !("tenantId" in value)) return null;
  return typeof value.tenantId === "string" ? value.tenantId : null;
}
