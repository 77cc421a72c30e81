/**
 * The quota of stored bytes, where the engine heeds it. Pure.
 *
 * E100  A tenant that stored what it may starts nothing; one that stored twice as much has its runs
 *      fail at their next pass, and each with the code that says why.
 */
import { BatonError } from "./errors.ts";
import type { TenantStanding } from "./ports/tenants.ts";

/** How far running runs may go past what stops a start. */
const RUNNING_FACTOR = 2;

/** Why nothing may be started, or why a run may not go on; null: there is room. */
export function storageRefusal(
  { storage }: TenantStanding,
  what: "start" | "running run",
): BatonError | null {
  if (storage === null) return null;
  const used = storage.usedBytes;
  const allowed = storage.allowedBytes * (what === "start" ? 1 : RUNNING_FACTOR);
  if (used < allowed) return null;
  return new BatonError(
    "STORED_BYTES_EXCEEDED",
    `the tenant has stored ${used} bytes; ${allowed} is too much for a ${what}`,
    { field: "storedBytesMax", used, allowed },
  );
}
