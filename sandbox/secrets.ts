/**
 * Keeps the secrets of an attempt out of what it prints and throws.
 *
 * A guard against accidents: a body may always send a secret where it may send anything.
 */
const REDACTED = "[redacted]";
/** Shorter texts occur by chance. */
const SECRET_CHARS_MIN = 6;

export class Secrets {
  readonly #values: readonly string[];

  constructor(env: Readonly<Record<string, string>>) {
    // The longest first: one secret may be part of another.
    this.#values = Object.values(env)
      .filter((value) => value.length >= SECRET_CHARS_MIN)
      .sort((a, b) => b.length - a.length);
  }

  redacted(text: string): string {
    return this.#values.reduce((clean, value) => clean.replaceAll(value, REDACTED), text);
  }

  /** JSON with every text in it redacted; what is no JSON is redacted as a text. */
  redactedJson(json: string): string {
    if (this.#values.length === 0) return json;
    try {
      return JSON.stringify(
        JSON.parse(json, (_key, value: unknown) =>
          typeof value === "string" ? this.redacted(value) : value,
        ),
      );
    } catch {
      return this.redacted(json);
    }
  }
}
