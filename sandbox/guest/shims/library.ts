/** The library that the heap holds; the same names stand there on the workflow and the step side. */

type Members = Readonly<Record<string, unknown>>;

export const library = (
  globalThis as unknown as Record<
    symbol,
    {
      readonly workflow: Members;
      readonly api: Members;
      readonly errors: Members;
      readonly serde: Members;
    }
  >
)[Symbol.for("baton.guest")]!;
