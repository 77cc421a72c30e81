/** Blob, File and FormData, in memory. */
import { StringOf } from "../primordials.ts";

export type BlobPart = string | ArrayBuffer | ArrayBufferView | GuestBlob;

export function bytesOfPart(part: BlobPart): Uint8Array {
  if (part instanceof GuestBlob) return part.content;
  if (part instanceof ArrayBuffer) return new Uint8Array(part.slice(0));
  if (ArrayBuffer.isView(part)) {
    return new Uint8Array(part.buffer, part.byteOffset, part.byteLength).slice();
  }
  return new TextEncoder().encode(StringOf(part));
}

export function joinedBytes(parts: readonly Uint8Array[]): Uint8Array {
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

export class GuestBlob {
  readonly type: string;
  /** @internal */
  readonly content: Uint8Array;

  constructor(parts: Iterable<BlobPart> = [], options: { readonly type?: string } = {}) {
    this.content = joinedBytes([...parts].map(bytesOfPart));
    const type = StringOf(options.type ?? "");
    this.type = /^[\x20-\x7e]*$/.test(type) ? type.toLowerCase() : "";
    Object.defineProperty(this, "content", { enumerable: false });
  }

  get size(): number {
    return this.content.length;
  }

  slice(from = 0, to = this.size, type = ""): GuestBlob {
    return new GuestBlob([this.content.slice(from, to)], { type });
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(this.content);
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.content.slice().buffer;
  }

  async bytes(): Promise<Uint8Array> {
    return this.content.slice();
  }

  get [Symbol.toStringTag](): string {
    return "Blob";
  }
}

export class GuestFile extends GuestBlob {
  readonly name: string;
  readonly lastModified: number;

  constructor(
    parts: Iterable<BlobPart>,
    name: string,
    options: { readonly type?: string; readonly lastModified?: number } = {},
  ) {
    super(parts, options);
    this.name = StringOf(name);
    this.lastModified = options.lastModified ?? Date.now();
  }

  override get [Symbol.toStringTag](): string {
    return "File";
  }
}

export type FormDataValue = string | GuestFile;

export class GuestFormData {
  #entries: [string, FormDataValue][] = [];

  append(name: string, value: FormDataValue | GuestBlob, fileName?: string): void {
    this.#entries.push([StringOf(name), formValue(value, fileName)]);
  }

  set(name: string, value: FormDataValue | GuestBlob, fileName?: string): void {
    const entry: [string, FormDataValue] = [StringOf(name), formValue(value, fileName)];
    const at = this.#entries.findIndex(([known]) => known === entry[0]);
    if (at < 0) this.#entries.push(entry);
    else {
      this.#entries = this.#entries.filter(([known], i) => known !== entry[0] || i === at);
      this.#entries[at] = entry;
    }
  }

  get(name: string): FormDataValue | null {
    return this.#entries.find(([known]) => known === name)?.[1] ?? null;
  }

  getAll(name: string): FormDataValue[] {
    return this.#entries.filter(([known]) => known === name).map(([, value]) => value);
  }

  has(name: string): boolean {
    return this.#entries.some(([known]) => known === name);
  }

  delete(name: string): void {
    this.#entries = this.#entries.filter(([known]) => known !== name);
  }

  forEach(each: (value: FormDataValue, name: string, form: GuestFormData) => void): void {
    for (const [name, value] of this) each(value, name, this);
  }

  *entries(): Generator<[string, FormDataValue]> {
    for (const [name, value] of this.#entries) yield [name, value];
  }

  *keys(): Generator<string> {
    for (const [name] of this.#entries) yield name;
  }

  *values(): Generator<FormDataValue> {
    for (const [, value] of this.#entries) yield value;
  }

  [Symbol.iterator](): Generator<[string, FormDataValue]> {
    return this.entries();
  }

  get [Symbol.toStringTag](): string {
    return "FormData";
  }
}

function formValue(value: FormDataValue | GuestBlob, fileName?: string): FormDataValue {
  if (!(value instanceof GuestBlob)) return StringOf(value);
  if (value instanceof GuestFile && fileName === undefined) return value;
  const name = fileName ?? "blob";
  return new GuestFile([value], name, { type: value.type });
}

/** A form as the body of a request; the boundary comes from `random`, so it is deterministic. */
export function multipartOf(form: GuestFormData): { body: Uint8Array; type: string } {
  const boundary = `----baton${crypto.randomUUID().replace(/-/g, "")}`;
  const parts: Uint8Array[] = [];
  const add = (text: string): number => parts.push(new TextEncoder().encode(text));
  for (const [name, value] of form) {
    add(`--${boundary}\r\nContent-Disposition: form-data; name="${escaped(name)}"`);
    if (typeof value === "string") {
      add(`\r\n\r\n${value.replace(/\r?\n|\r/g, "\r\n")}\r\n`);
      continue;
    }
    const type = value.type === "" ? "application/octet-stream" : value.type;
    add(`; filename="${escaped(value.name)}"\r\nContent-Type: ${type}\r\n\r\n`);
    parts.push(value.content);
    add("\r\n");
  }
  add(`--${boundary}--\r\n`);
  return { body: joinedBytes(parts), type: `multipart/form-data; boundary=${boundary}` };
}

function escaped(text: string): string {
  return text.replace(/\r?\n|\r/g, "%0D%0A").replace(/"/g, "%22");
}
