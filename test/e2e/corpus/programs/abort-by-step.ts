async function stop(controller: AbortController): Promise<void> {
  "use step";
  controller.abort(new Error("stopped by a step"));
}

async function look(signal: AbortSignal): Promise<unknown[]> {
  "use step";
  return [signal.aborted, (signal.reason as Error).message];
}

export async function main(): Promise<unknown> {
  "use workflow";
  const controller = new AbortController();
  const heard = new Promise<string>((resolve) => {
    controller.signal.addEventListener("abort", () => resolve("heard"));
  });
  await stop(controller);
  return [await heard, controller.signal.aborted, await look(controller.signal)];
}
