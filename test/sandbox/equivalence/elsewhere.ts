/** Processes that never saw a run, in other time zones and languages, which go on with it. */
import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { GuestEvent, HeapImage, HeapRequest } from "../../../engine/ports/sandbox.ts";

export type Errand =
  | {
      readonly kind: "restore";
      readonly request: HeapRequest;
      readonly events: readonly GuestEvent[];
    }
  | {
      readonly kind: "replay";
      readonly request: HeapRequest;
      readonly events: readonly GuestEvent[];
    };

export type Reply =
  | { readonly before: string; readonly after: string; readonly image: HeapImage | null }
  | { readonly failed: string };

export class Elsewhere {
  readonly #child: ChildProcess;

  constructor(env: Readonly<Record<string, string>>) {
    this.#child = fork(new URL("restorer.ts", import.meta.url), {
      execArgv: ["--import", "tsx"],
      serialization: "advanced",
      env: { PATH: process.env["PATH"], ...env },
    });
  }

  async do(errand: Errand): Promise<Exclude<Reply, { failed: string }>> {
    this.#child.send(errand);
    const [reply] = (await once(this.#child, "message")) as [Reply];
    if ("failed" in reply) throw new Error(reply.failed);
    return reply;
  }

  close(): void {
    this.#child.disconnect();
  }
}
