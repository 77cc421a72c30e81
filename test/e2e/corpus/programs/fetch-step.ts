import { FatalError, fetch } from "workflow";

async function load(): Promise<number> {
  "use step";
  const response = await globalThis.fetch("https://example.com/data.json");
  return response.status;
}
load.maxRetries = 0;

async function outcome(work: Promise<unknown>): Promise<unknown> {
  try {
    await work;
    return "it went out";
  } catch (error) {
    return [error instanceof Error, FatalError.is(error)];
  }
}

/** Without a policy of its tenant nothing goes out, and the workflow can go on without it. */
export async function main(): Promise<unknown> {
  "use workflow";
  return [await outcome(fetch("https://example.com/")), await outcome(load())];
}
