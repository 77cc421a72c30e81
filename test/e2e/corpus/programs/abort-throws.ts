async function work(signal: AbortSignal): Promise<void> {
  "use step";
  signal.throwIfAborted();
}

export async function main(): Promise<unknown> {
  "use workflow";
  try {
    await work(AbortSignal.abort());
    return "it went on";
  } catch (error) {
    return [(error as Error).name, error instanceof DOMException];
  }
}
