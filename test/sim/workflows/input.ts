/** What every simulated workflow is started with. */
export interface Input {
  /** Names the tenant; must never be seen under another. */
  readonly canary: string;
  /** Prefix of the run's hook tokens. */
  readonly token: string;
  /** Extra awaits between what resumes a branch and what it does next. */
  readonly hops: number;
  readonly width: number;
  /** A typical body's or sleep's length. */
  readonly ms: number;
}

/** `count` turns of the microtask queue. */
export async function hop(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await Promise.resolve();
}
