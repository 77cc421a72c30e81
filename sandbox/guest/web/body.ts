/**
 * Bodies of requests and responses. A body is bytes that are here, or a stream that is elsewhere:
 * what a stream is, and how it is read, differs between workflow heaps and step heaps.
 */
import { GuestBlob, GuestFormData, bytesOfPart, multipartOf } from "./blob.ts";
import type { BlobPart } from "./blob.ts";
import { GuestURLSearchParams } from "./url.ts";

export interface BodyTools {
  isStream(value: unknown): value is object;
  /** A stream that gives these bytes. */
  streamOf(bytes: Uint8Array): object;
  /** Answers a webhook's request; `writable` came with it. */
  respond(writable: object, response: unknown): Promise<unknown>;
  /** All bytes of a stream that was made elsewhere. */
  read(stream: object): Promise<Uint8Array>;
  /** Two streams that both give what the one gives. */
  tee(stream: object): readonly [object, object];
}

let tools: BodyTools | null = null;

export function setBodyTools(given: BodyTools): void {
  tools = given;
}

export function bodyTools(): BodyTools {
  if (tools === null) throw new Error("the body tools are set at boot");
  return tools;
}

export type BodyContent = Uint8Array | { readonly stream: object } | null;

/** What a body says of itself, and the type that it implies. */
export function contentOf(init: unknown): { content: BodyContent; type: string | null } {
  if (init === undefined || init === null) return { content: null, type: null };
  if (bodyTools().isStream(init)) return { content: { stream: init }, type: null };
  if (init instanceof GuestURLSearchParams) {
    return {
      content: bytesOfPart(init.toString()),
      type: "application/x-www-form-urlencoded;charset=UTF-8",
    };
  }
  if (init instanceof GuestFormData) {
    const { body, type } = multipartOf(init);
    return { content: body, type };
  }
  const isBytes = init instanceof ArrayBuffer || ArrayBuffer.isView(init);
  const type = init instanceof GuestBlob ? init.type || null : null;
  const content = bytesOfPart(init as BlobPart);
  return {
    content,
    type: isBytes || init instanceof GuestBlob ? type : "text/plain;charset=UTF-8",
  };
}

/** What Request and Response share. */
export abstract class GuestBody {
  #content: BodyContent = null;
  #isUsed = false;
  abstract readonly headers: { get(name: string): string | null };

  protected setContent(content: BodyContent): void {
    this.#content = content;
  }

  /** @internal */
  get content(): BodyContent {
    return this.#content;
  }

  get bodyUsed(): boolean {
    return this.#isUsed;
  }

  get body(): object | null {
    const content = this.#content;
    if (content === null) return null;
    if (!(content instanceof Uint8Array)) return content.stream;
    const stream = bodyTools().streamOf(content);
    this.#content = { stream };
    return stream;
  }

  /** @internal The content, which counts as read from now on. */
  takeContent(): BodyContent {
    if (this.#isUsed) throw new TypeError("the body was read already");
    this.#isUsed = this.#content !== null;
    return this.#content;
  }

  protected copyContent(): BodyContent {
    if (this.#isUsed) throw new TypeError("the body was read already");
    const content = this.#content;
    if (content === null || content instanceof Uint8Array) return content;
    const [mine, copy] = bodyTools().tee(content.stream);
    this.#content = { stream: mine };
    return { stream: copy };
  }

  async bytes(): Promise<Uint8Array> {
    const content = this.takeContent();
    if (content === null) return new Uint8Array(0);
    return content instanceof Uint8Array ? content.slice() : bodyTools().read(content.stream);
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text()) as unknown;
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return (await this.bytes()).slice().buffer;
  }

  async blob(): Promise<GuestBlob> {
    const type = this.headers.get("content-type") ?? "";
    return new GuestBlob([await this.bytes()], { type });
  }

  async formData(): Promise<GuestFormData> {
    const type = this.headers.get("content-type") ?? "";
    if (!type.startsWith("application/x-www-form-urlencoded")) {
      throw new TypeError("formData() reads url-encoded forms; read other bodies as bytes");
    }
    const form = new GuestFormData();
    for (const [name, value] of new GuestURLSearchParams(await this.text())) {
      form.append(name, value);
    }
    return form;
  }
}
