import { FatalError } from "workflow";

async function book(what: string): Promise<string> {
  "use step";
  if (what === "hotel") throw new FatalError("no rooms");
  return `${what}-1`;
}

async function cancel(booking: string): Promise<string> {
  "use step";
  return `cancelled ${booking}`;
}

export async function main(): Promise<unknown> {
  "use workflow";
  const undo: (() => Promise<string>)[] = [];
  try {
    for (const what of ["flight", "car", "hotel"]) {
      const booking = await book(what);
      undo.unshift(() => cancel(booking));
    }
    return "booked";
  } catch (error) {
    const undone: string[] = [];
    for (const step of undo) undone.push(await step());
    return [(error as Error).message, undone];
  }
}
