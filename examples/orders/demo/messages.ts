/** What the demo's two processes say to each other. */

/** Asked of the engine process; answered by a `reply` of the same id. */
export type Request =
  | { readonly kind: "start"; readonly runId: string; readonly order: unknown }
  | { readonly kind: "approve"; readonly orderId: string; readonly answer: unknown }
  | { readonly kind: "state" }
  | { readonly kind: "results"; readonly runIds: readonly string[] }
  | { readonly kind: "close" };

/** Where the open runs stand. */
export interface State {
  readonly over: number;
  /** Runs that wait for a time, and for no step. */
  readonly sleeping: number;
  /** The others that are open. */
  readonly busy: number;
  /** Bodies that have started and have no outcome. */
  readonly bodies: number;
}

export interface Result {
  readonly runId: string;
  readonly result:
    | { readonly kind: "completed"; readonly output: unknown }
    | { readonly kind: "failed"; readonly name: string; readonly message: string }
    | { readonly kind: "open"; readonly status: string };
  readonly events: number;
}

/** One delivery, as the engine logged it. */
export interface DeliveryLine {
  readonly runId: string;
  readonly outcome: string;
  readonly passes: number;
  readonly restores: number;
  readonly coldStarts: number;
}

export type Said =
  | { readonly kind: "ready"; readonly startMs: number }
  | { readonly kind: "reply"; readonly id: number; readonly value: unknown }
  | {
      readonly kind: "refused";
      readonly id: number;
      readonly code: string;
      readonly message: string;
    }
  | { readonly kind: "delivery"; readonly line: DeliveryLine }
  | { readonly kind: "trouble"; readonly text: string };
