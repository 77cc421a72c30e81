/** Headers, as in the Fetch standard, without guards of browsers. */
import { StringOf } from "../primordials.ts";

export type HeadersInit =
  GuestHeaders | Iterable<readonly [string, string]> | Readonly<Record<string, string>>;

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
// eslint-disable-next-line no-control-regex
const FORBIDDEN = /[\0\r\n]/;

export class GuestHeaders {
  readonly #entries = new Map<string, string>();
  readonly #cookies: string[] = [];

  constructor(init?: HeadersInit | null) {
    if (init === undefined || init === null) return;
    if (typeof init !== "object") throw new TypeError("Headers takes an object or pairs");
    if (Symbol.iterator in init) {
      for (const pair of init as Iterable<readonly string[]>) {
        const [name, value, ...more] = pair;
        if (name === undefined || value === undefined || more.length > 0) {
          throw new TypeError("Headers takes pairs of a name and a value");
        }
        this.append(name, value);
      }
      return;
    }
    for (const [name, value] of Object.entries(init)) this.append(name, value);
  }

  append(name: string, value: string): void {
    const key = nameOf(name);
    const text = valueOf(value);
    if (key === "set-cookie") this.#cookies.push(text);
    else {
      const before = this.#entries.get(key);
      this.#entries.set(key, before === undefined ? text : `${before}, ${text}`);
    }
  }

  set(name: string, value: string): void {
    const key = nameOf(name);
    const text = valueOf(value);
    if (key === "set-cookie") this.#cookies.splice(0, this.#cookies.length, text);
    else this.#entries.set(key, text);
  }

  get(name: string): string | null {
    const key = nameOf(name);
    if (key === "set-cookie") return this.#cookies.length === 0 ? null : this.#cookies.join(", ");
    return this.#entries.get(key) ?? null;
  }

  getSetCookie(): string[] {
    return [...this.#cookies];
  }

  has(name: string): boolean {
    return this.get(name) !== null;
  }

  delete(name: string): void {
    const key = nameOf(name);
    if (key === "set-cookie") this.#cookies.length = 0;
    else this.#entries.delete(key);
  }

  forEach(
    each: (value: string, name: string, headers: GuestHeaders) => void,
    self?: unknown,
  ): void {
    for (const [name, value] of this) each.call(self, value, name, this);
  }

  *entries(): Generator<[string, string]> {
    const names = [...this.#entries.keys()];
    if (this.#cookies.length > 0) names.push("set-cookie");
    for (const name of names.sort()) {
      if (name === "set-cookie") for (const cookie of this.#cookies) yield [name, cookie];
      else yield [name, this.#entries.get(name) ?? ""];
    }
  }

  *keys(): Generator<string> {
    for (const [name] of this) yield name;
  }

  *values(): Generator<string> {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator](): Generator<[string, string]> {
    return this.entries();
  }

  get [Symbol.toStringTag](): string {
    return "Headers";
  }
}

function nameOf(name: unknown): string {
  const text = StringOf(name);
  if (!NAME.test(text)) throw new TypeError(`"${text.slice(0, 60)}" is no header name`);
  return text.toLowerCase();
}

function valueOf(value: unknown): string {
  const text = StringOf(value).replace(/^[\t\r\n ]+|[\t\r\n ]+$/g, "");
  if (FORBIDDEN.test(text)) throw new TypeError("a header value has no line breaks");
  return text;
}
