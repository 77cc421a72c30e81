/** What goes wrong on the way, in words that tell a tenant nothing of the host's network. */
import type { EgressFailure } from "../../engine/ports/egress.ts";
import { AddressDenied, NameUnknown } from "./connections.ts";

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: "the other side closed the connection",
  UND_ERR_SOCKET: "the other side closed the connection",
  ETIMEDOUT: "no connection was made in time",
  UND_ERR_CONNECT_TIMEOUT: "no connection was made in time",
  UND_ERR_HEADERS_TIMEOUT: "no answer came in time",
  UND_ERR_BODY_TIMEOUT: "the answer's body paused for too long",
  UND_ERR_HEADERS_OVERFLOW: "the answer's headers are too large",
  UND_ERR_INVALID_ARG: "a header of the request has a form that cannot be sent",
  UND_ERR_ABORTED: "the request was aborted",
  ABORT_ERR: "the request was aborted",
};
const OTHER = "the request could not be made";

export function failureOf(error: unknown): EgressFailure {
  for (const cause of causesOf(error)) {
    if (cause instanceof AddressDenied) return { kind: "denied", reason: cause.message };
    if (cause instanceof NameUnknown) return { kind: "failed", reason: cause.message };
    const reason = reasonOf(cause);
    if (reason !== undefined) return { kind: "failed", reason };
  }
  return { kind: "failed", reason: OTHER };
}

function reasonOf(error: Error): string | undefined {
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (error.name === "AbortError") return REASONS["ABORT_ERR"];
  if (error.name === "HTTPParserError") return "the answer is not HTTP";
  if (
    code.startsWith("Z_") ||
    code.startsWith("ERR__ERROR_FORMAT") ||
    code.startsWith("ERR_BROTLI")
  ) {
    return "the answer's body cannot be decompressed";
  }
  if (/CERT|TLS|SSL|SIGNATURE/.test(code)) return "the other side's certificate is not accepted";
  return REASONS[code];
}

/** The error and what it was made from; several of a connection that tried several addresses. */
function causesOf(error: unknown): Error[] {
  if (!(error instanceof Error)) return [];
  const inner = error instanceof AggregateError ? (error.errors as unknown[]) : [];
  return [error, ...inner.flatMap(causesOf), ...causesOf(error.cause)];
}
