/** What an order is made of, and how it can end. Money is in cents. */

export interface OrderLine {
  readonly sku: string;
  readonly quantity: number;
  readonly unitCents: number;
}

export type Card =
  | { readonly kind: "good" }
  /** The network fails the first so many attempts, then works. */
  | { readonly kind: "flaky"; readonly failures: number }
  /** The bank says no, and would say it again. */
  | { readonly kind: "declined"; readonly reason: string }
  /** The network never works. */
  | { readonly kind: "unreachable" };

export interface Order {
  readonly id: string;
  readonly customer: string;
  readonly lines: readonly OrderLine[];
  readonly card: Card;
  /** How long a person has to approve a large order. */
  readonly approvalTimeoutMs: number;
  readonly shipAfterMs: number;
}

export interface Approval {
  readonly approved: boolean;
  readonly by: string;
}

export type Outcome =
  | { readonly status: "empty" }
  | { readonly status: "unpaid"; readonly reason: string }
  | { readonly status: "refused"; readonly by: string; readonly refundedCents: number }
  | { readonly status: "timed out"; readonly refundedCents: number }
  | { readonly status: "shipped"; readonly totalCents: number; readonly label: string };
