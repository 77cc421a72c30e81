import { FatalError } from "workflow";

class Declined extends FatalError {
  readonly reason: string;
  constructor(reason: string) {
    super(`declined: ${reason}`);
    this.reason = reason;
  }
}

async function fail(kind: string): Promise<never> {
  "use step";
  switch (kind) {
    case "text":
      throw "just text";
    case "object":
      throw { code: 42, at: new Date(0) };
    case "declined":
      throw new Declined("limit");
    default:
      throw undefined;
  }
}
fail.maxRetries = 0;

async function caught(kind: string): Promise<unknown> {
  try {
    return await fail(kind);
  } catch (error) {
    const { name, message, cause, reason } = error as Error & { reason?: string };
    return [name, message.includes("failed"), cause, reason];
  }
}

export async function main(): Promise<unknown> {
  "use workflow";
  return [await caught("text"), await caught("object"), await caught("declined")];
}
