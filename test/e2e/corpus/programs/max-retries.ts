import { FatalError, RetryableError, getStepMetadata } from "workflow";

async function never(): Promise<void> {
  "use step";
  throw new RetryableError(`attempt ${getStepMetadata().attempt}`, { retryAfter: 1 });
}
never.maxRetries = 2;

async function once(): Promise<void> {
  "use step";
  throw new Error(`attempt ${getStepMetadata().attempt}`);
}
once.maxRetries = 0;

async function byDefault(): Promise<void> {
  "use step";
  throw new RetryableError(`attempt ${getStepMetadata().attempt}`, { retryAfter: 1 });
}

async function failure(work: Promise<void>): Promise<unknown> {
  try {
    return await work;
  } catch (error) {
    const { message, cause } = error as Error;
    return [
      FatalError.is(error),
      (cause as Error).name,
      (cause as Error).message,
      message.includes((cause as Error).message),
    ];
  }
}

export async function main(): Promise<unknown> {
  "use workflow";
  return Promise.all([failure(never()), failure(once()), failure(byDefault())]);
}
