/**
 * Webhooks: hooks whose payload is an HTTP request to a public address of their own.
 *
 * The token is always the library's: it is all that keeps strangers out. The reply is fixed when
 * the webhook is made, or given by the workflow for each request.
 */
import { NotAvailableError } from "./errors.ts";
import { runOf, textOfValue } from "./guest.ts";
import type { Guest } from "./guest.ts";
import { hookHandle } from "./hook-handle.ts";
import { HookState } from "./hooks.ts";
import type { RunHandleOf } from "./hooks.ts";
import { TypeErrorConstructor, createObject, defineFixed, hasOwn } from "./primordials.ts";

export const WEBHOOK_PATH = "/.well-known/workflow/v1/webhook/";

export interface WebhookOptions {
  /** A Response to send at once, or "manual"; absent: 202 with an empty body. */
  readonly respondWith?: unknown;
  readonly metadata?: unknown;
}

function refuseUrl(): never {
  throw new NotAvailableError(
    "this run's webhooks have no public address: the platform set no base URL for webhooks when " +
      "the run began; use the webhook's token",
  );
}

export function createCreateWebhook(
  guest: Guest,
  disposeSymbol: symbol,
  runHandleOf: RunHandleOf,
): (options?: WebhookOptions) => object {
  return function createWebhook(options: WebhookOptions = createObject(null)) {
    if (hasOwn(options, "token")) {
      throw new TypeErrorConstructor(
        "createWebhook makes its own token; for yours, use createHook",
      );
    }
    const { respondWith } = options;
    const isReply = typeof respondWith === "object" && respondWith !== null;
    if (respondWith !== undefined && respondWith !== "manual" && !isReply) {
      throw new TypeErrorConstructor('createWebhook: respondWith is a Response or "manual"');
    }
    const metadata = { respondWith, metadata: options.metadata };
    const token = guest.random.token();
    const state = new HookState(
      guest,
      {
        token,
        metadata: textOfValue(guest, metadata, "webhook options"),
        webhook: true,
        system: false,
        force: false,
        retentionMs: 0,
      },
      runHandleOf,
    );
    const handle = hookHandle(state, disposeSymbol);
    const { baseUrl } = runOf(guest);
    if (baseUrl === null) {
      Object.defineProperty(handle, "url", { get: refuseUrl, enumerable: true });
    } else {
      defineFixed(handle, "url", `${baseUrl}${WEBHOOK_PATH}${token}`);
    }
    return handle;
  };
}
