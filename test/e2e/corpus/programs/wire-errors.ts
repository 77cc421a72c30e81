import { FatalError, RetryableError } from "workflow";

async function errors(): Promise<unknown[]> {
  "use step";
  const cause = new TypeError("inner", { cause: { code: 7 } });
  return [
    new Error("plain", { cause }),
    new RangeError("range"),
    new SyntaxError("syntax"),
    new ReferenceError("reference"),
    new EvalError("eval"),
    new URIError("uri"),
    new AggregateError([new Error("one"), "two"], "several"),
    new DOMException("gone", "AbortError"),
    new FatalError("fatal"),
    new RetryableError("later", { retryAfter: new Date(1_700_000_000_000) }),
    Object.assign(new Error("coded"), { name: "PaymentError", code: "card_declined" }),
  ];
}

async function names(given: unknown[]): Promise<string[]> {
  "use step";
  return given.map((one) => `${(one as Error).name}/${one instanceof Error}`);
}

export async function main(): Promise<unknown> {
  "use workflow";
  const all = (await errors()) as [Error, ...Error[]];
  const [plain] = all;
  const aggregate = all[6] as AggregateError;
  const later = all[9] as RetryableError;
  return [
    all.map((one) => `${one.name}: ${one.message}`),
    [
      all[1] instanceof RangeError,
      all[7] instanceof DOMException,
      FatalError.is(all[8]),
      RetryableError.is(later),
    ],
    [plain.cause instanceof TypeError, ((plain.cause as Error).cause as { code: number }).code],
    [(aggregate.errors[0] as Error).message, aggregate.errors[1]],
    later.retryAfter.getTime(),
    (all[10] as Error & { code: string }).code,
    await names(all.slice(0, 3)),
    typeof plain.stack,
  ];
}
