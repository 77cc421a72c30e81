/**
 * A guest host: a process of its own for one trust group, with guest threads inside.
 *
 * It is started with an empty environment, without keys and with the least rights that its parent
 * can give it; orders come in at its input, answers go out at its output, and when the input ends
 * so does the process.
 */
import { FrameReader, frameOf } from "./frames.ts";
import { HostDesk } from "./host-desk.ts";
import { ThreadPlaces } from "./threads.ts";
import type { Incident } from "./threads.ts";
import type { HeapId, HostHello, NumberedOrder } from "./wire.ts";

const reader = new FrameReader();
let desk: HostDesk | null = null;

function send(message: unknown): void {
  process.stdout.write(frameOf(message));
}

function begin(hello: HostHello): HostDesk {
  const onIncident = (incident: Incident): void => send({ incident });
  const onGone = (heapId: HeapId, reason: string): void => send({ gone: { heapId, reason } });
  return new HostDesk(new ThreadPlaces({ ...hello, onIncident }), onGone);
}

async function answer(desk: HostDesk, { number, order }: NumberedOrder): Promise<void> {
  send({ number, answer: await desk.perform(order) });
}

process.stdin.on("data", (chunk: Buffer) => {
  for (const message of reader.push(chunk)) {
    if (desk === null) desk = begin(message as HostHello);
    else void answer(desk, message as NumberedOrder);
  }
});
process.stdin.on("end", () => process.exit(0));
