async function words(): Promise<ReadableStream<string>> {
  "use step";
  return new ReadableStream<string>({
    start(controller) {
      for (const word of ["one", "two", "three"]) controller.enqueue(word);
      controller.close();
    },
  });
}

async function upper(input: ReadableStream<string>): Promise<ReadableStream<Uint8Array>> {
  "use step";
  const encoder = new TextEncoder();
  return input.pipeThrough(
    new TransformStream<string, Uint8Array>({
      transform: (word, controller) => controller.enqueue(encoder.encode(word.toUpperCase())),
    }),
  );
}

async function joined(input: ReadableStream<Uint8Array>): Promise<string> {
  "use step";
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of input) text += `${decoder.decode(chunk, { stream: true })};`;
  return text;
}

export async function main(): Promise<string> {
  "use workflow";
  return joined(await upper(await words()));
}
