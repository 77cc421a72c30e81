import { createHook } from "workflow";

async function note(text: string): Promise<string> {
  "use step";
  return `noted ${text}`;
}

export async function main(token: string): Promise<unknown> {
  "use workflow";
  const hook = createHook<string>({ token });
  const seen: string[] = [];
  for await (const text of hook) {
    if (text === "stop") break;
    seen.push(await note(text));
  }
  hook.dispose();
  return seen;
}
