/**
 * What the library still has to do in a run's name before the run may end: an abort that the code
 * asked for right before it returned has to reach those who hold the signal.
 */
import { PromiseConstructor, list, push } from "./primordials.ts";

export class Farewells {
  #openCount = 0;
  #waiting = list<() => void>();

  /** Something is to be done; call what is returned, once, when it is. */
  begin(): () => void {
    this.#openCount += 1;
    return () => {
      this.#openCount -= 1;
      if (this.#openCount > 0) return;
      const waiting = this.#waiting;
      this.#waiting = list();
      for (let i = 0; i < waiting.length; i++) waiting[i]!();
    };
  }

  /** Resolves once nothing is to be done. */
  said(): Promise<void> {
    return new PromiseConstructor<void>((resolve) => {
      if (this.#openCount === 0) resolve();
      else push(this.#waiting, resolve);
    });
  }
}
