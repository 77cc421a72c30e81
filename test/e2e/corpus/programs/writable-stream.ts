import { getWritable } from "workflow";

async function write(out: WritableStream<unknown>, chunks: unknown[]): Promise<void> {
  "use step";
  const writer = out.getWriter();
  for (const chunk of chunks) await writer.write(chunk);
  writer.releaseLock();
}

async function finish(): Promise<void> {
  "use step";
  await getWritable().close();
}

async function log(line: string): Promise<void> {
  "use step";
  const writer = getWritable<string>({ namespace: "log" }).getWriter();
  await writer.write(line);
  await writer.close();
}

export async function main(): Promise<void> {
  "use workflow";
  const out = getWritable();
  await write(out, ["first", { n: 2n }]);
  await write(out, [new Uint8Array([3])]);
  await log("done");
  await finish();
}
