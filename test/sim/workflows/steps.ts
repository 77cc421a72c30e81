/**
 * The steps of the simulated workflows. The simulation runs their bodies itself (`bodies.ts`), in
 * virtual time and counted; what stands here only names them.
 */

/** What a body is to do. */
export interface Plan {
  /** Virtual time that the body takes. */
  readonly ms: number;
  /** Attempts up to this one fail; 0 or absent: none. */
  readonly failures?: number;
  /** How a failing attempt fails; an ordinary error if absent. */
  readonly how?: "error" | "fatal" | "retryable";
  /** Only with `retryable`: when the next attempt may start, ms from now. */
  readonly retryMs?: number;
  /** How many characters the result is padded to. */
  readonly size?: number;
  /** A key of an attribute that the body sets first. */
  readonly attribute?: string;
  /** How many chunks it writes to a stream. */
  readonly chunks?: number;
  /** Its last chunk is written so long after its outcome. */
  readonly flushMs?: number;
}

function onlySimulated(label: string): never {
  throw new Error(`the simulation runs the body of ${label}`);
}

/** A step that is tried again often enough for any simulated crash. */
export async function act(canary: string, label: string, _plan: Plan): Promise<string> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
act.maxRetries = 30;

/** A step that gives up soon. */
export async function brittle(canary: string, label: string, _plan: Plan): Promise<string> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
brittle.maxRetries = 2;

/** A step that must not run twice. */
export async function once(canary: string, label: string, _plan: Plan): Promise<string> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
once.maxRetries = 0;

/** A step that takes what cannot be encoded. */
export async function take(_value: unknown): Promise<string> {
  "use step";
  return onlySimulated("take");
}

/** Waits until the signal is aborted, and gives the reason. */
export async function listen(
  canary: string,
  label: string,
  _plan: Plan,
  _signal: AbortSignal,
): Promise<string> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
listen.maxRetries = 30;

/** Aborts the signal, with its label as the reason. */
export async function abortIt(
  canary: string,
  label: string,
  _plan: Plan,
  _controller: AbortController,
): Promise<string> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
abortIt.maxRetries = 30;

/** Writes `chunks` chunks of its own to a stream of the run. */
export async function scribe(
  canary: string,
  label: string,
  _plan: Plan,
  _out: WritableStream<string>,
): Promise<string> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
scribe.maxRetries = 30;

/** Gives a stream of `chunks` numbers. */
export async function emit(
  canary: string,
  label: string,
  _plan: Plan,
): Promise<ReadableStream<string>> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
emit.maxRetries = 30;

/** Reads a stream to its end. */
export async function read(
  canary: string,
  label: string,
  _plan: Plan,
  _stream: ReadableStream<string>,
): Promise<string> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
read.maxRetries = 30;

/** Sets an attribute named by its label. */
export async function tag(canary: string, label: string, _plan: Plan): Promise<string> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
tag.maxRetries = 30;

/** Tells the client the token. */
export async function mention(
  canary: string,
  label: string,
  _plan: Plan,
  _token: string,
): Promise<string> {
  "use step";
  return onlySimulated(`${canary}${label}`);
}
mention.maxRetries = 30;
