async function untilAborted(signal: AbortSignal): Promise<string> {
  "use step";
  return new Promise((resolve) => {
    const tell = () => resolve(`stopped: ${signal.reason}`);
    if (signal.aborted) tell();
    signal.addEventListener("abort", tell, { once: true });
  });
}

async function quick(): Promise<string> {
  "use step";
  return "quick";
}

export async function main(): Promise<unknown> {
  "use workflow";
  const controller = new AbortController();
  const slow = untilAborted(controller.signal);
  const first = await Promise.race([slow, quick()]);
  controller.abort("no longer needed");
  return [first, controller.signal.aborted, await slow];
}
