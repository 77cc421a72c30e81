/** What a checkout is given, and how it can end. Money is in cents. */
export interface Line {
  readonly sku: string;
  readonly quantity: number;
  readonly unitCents: number;
}

export interface Order {
  readonly id: string;
  readonly lines: readonly Line[];
  /** A test card: what the payment provider does with it. */
  readonly card: "good" | "busy" | "declined" | "expires";
}

export interface Approval {
  readonly approved: boolean;
  readonly by: string;
}

export type Outcome =
  | { readonly status: "shipped"; readonly totalCents: number; readonly parcel: string }
  | { readonly status: "cancelled"; readonly why: string; readonly undone: readonly string[] };
