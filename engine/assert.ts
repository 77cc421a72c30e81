/**
 * Assertions: what the code relies on, said where it relies on it.
 *
 * A failed assertion is our own bug, never a tenant's or the network's: the delivery stops without
 * an ack, and after the delivery limit the run is failed with our code.
 */

/** A rule of this code base that did not hold. The message states the rule. */
export class InvariantViolation extends Error {
  override readonly name = "InvariantViolation";
  readonly code = "INVARIANT_VIOLATION";
}

/** Throws unless the rule holds. `rule` states what must be true, not what went wrong. */
export function assert(condition: boolean, rule: string): asserts condition {
  if (!condition) throw new InvariantViolation(rule);
}

/** The value, which the rule says is there. */
export function present<T>(value: T | null | undefined, rule: string): T {
  if (value === null || value === undefined) throw new InvariantViolation(rule);
  return value;
}

/** Ends a switch over a closed union: a new member fails the type check here. */
export function assertNever(value: never): never {
  throw new InvariantViolation(`every kind is handled, this one is not: ${JSON.stringify(value)}`);
}
