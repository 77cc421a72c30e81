import { RetryableError, getStepMetadata } from "workflow";

async function flaky(after: "number" | "text" | "date"): Promise<unknown> {
  "use step";
  const { attempt, stepStartedAt } = getStepMetadata();
  if (attempt < 3) {
    const retryAfter =
      after === "number" ? 10 : after === "text" ? "10ms" : new Date(Date.now() + 10);
    throw new RetryableError("not yet", { retryAfter });
  }
  return [attempt, Date.now() - stepStartedAt.getTime() >= 20];
}

export async function main(): Promise<unknown> {
  "use workflow";
  return Promise.all([flaky("number"), flaky("text"), flaky("date")]);
}
