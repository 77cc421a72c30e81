/** A body that is sent in pieces: given by one side, one at a time, taken by the other. */
export class Upload implements AsyncIterable<Uint8Array> {
  #piece: Uint8Array | null = null;
  #end: "whole" | "given up" | null = null;
  #taken: () => void = () => undefined;
  #given: () => void = () => undefined;

  /** Resolves once the piece is taken, or nobody takes it any more. Null: there is no other. */
  send(piece: Uint8Array | null): Promise<void> {
    if (this.#end !== null) return Promise.resolve();
    if (piece === null) {
      this.#finish("whole");
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      this.#piece = piece;
      this.#taken = resolve;
      this.#given();
    });
  }

  /** What was sent so far is not the whole body, and is not to pass for it. */
  giveUp(): void {
    if (this.#end === null) this.#finish("given up");
  }

  async *[Symbol.asyncIterator](): AsyncIterator<Uint8Array> {
    for (;;) {
      const piece = this.#piece;
      if (piece !== null) {
        this.#piece = null;
        yield piece;
        this.#taken();
      } else if (this.#end === "whole") return;
      else if (this.#end === "given up") throw new Error("the upload was given up");
      else {
        await new Promise<void>((resolve) => {
          this.#given = resolve;
        });
      }
    }
  }

  #finish(end: "whole" | "given up"): void {
    this.#end = end;
    this.#taken();
    this.#given();
  }
}
