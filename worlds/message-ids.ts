/** New message ids: a ULID of the time and of the host's randomness. */
import type { MessageId } from "../engine/ids.ts";
import { ulid } from "../engine/ids.ts";
import type { Random } from "../engine/ports/host.ts";

export function messageIdsFrom(random: Random): (now: number) => MessageId {
  return (now) => `msg_${ulid(now, random.bytes(10))}` as MessageId;
}
