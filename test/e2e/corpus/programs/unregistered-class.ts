import { SerializationError } from "workflow/errors";

class Secretive {
  readonly value = 1;
}

async function take(value: unknown): Promise<string> {
  "use step";
  return typeof value;
}

export async function main(): Promise<unknown> {
  "use workflow";
  const [refused, taken] = await Promise.allSettled([take(new Secretive()), take({ value: 1 })]);
  if (refused.status !== "rejected") return "it went through";
  const error = refused.reason as Error;
  return [
    SerializationError.is(error),
    error.message.includes("Failed to serialize step arguments"),
    taken,
  ];
}
