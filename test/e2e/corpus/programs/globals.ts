async function digest(text: string): Promise<number> {
  "use step";
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return new Uint8Array(hash)[0] ?? -1;
}

async function waited(): Promise<string> {
  "use step";
  const started = performance.now();
  await new Promise<void>((resolve) => {
    const timer = setInterval(() => {
      clearInterval(timer);
      resolve();
    }, 5);
  });
  return performance.now() > started ? "time passed" : "time stood still";
}

export async function main(): Promise<unknown> {
  "use workflow";
  const scope = globalThis as unknown as Record<string, (...args: unknown[]) => unknown>;
  const refused = ["fetch", "setTimeout", "setInterval", "setImmediate"].map((name) => {
    try {
      return scope[name]?.("https://example.com");
    } catch (error) {
      return /workflow/.test((error as Error).message);
    }
  });
  console.log("seen", { by: ["the", "operator"] });
  return [
    refused,
    atob(btoa("text")),
    new TextDecoder().decode(new TextEncoder().encode("é")),
    structuredClone(new Map([["a", new Date(0)]]))
      .get("a")
      ?.getTime(),
    new URL("../x?q=1", "https://a.example/b/c").href,
    await digest("abc"),
    await waited(),
  ];
}
