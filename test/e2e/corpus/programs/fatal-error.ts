import { FatalError, getStepMetadata } from "workflow";

async function validate(): Promise<void> {
  "use step";
  throw new FatalError(`invalid on attempt ${getStepMetadata().attempt}`, {
    cause: new Error("why"),
  });
}

export async function main(): Promise<unknown> {
  "use workflow";
  try {
    await validate();
    return "it was valid";
  } catch (error) {
    const { name, message, cause } = error as Error;
    return [
      FatalError.is(error),
      error instanceof FatalError,
      name,
      message,
      (cause as Error).message,
    ];
  }
}
