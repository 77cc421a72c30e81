/**
 * What the Workflow SDK's module names mean inside a bundle.
 *
 * On both sides they are the guest library's small modules, which read what stands under
 * `Symbol.for("baton.guest")`: put there by the guest library in a heap, and by `host-steps.ts` where
 * step code runs as host code. So one step bundle runs in either.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Shims } from "./side-build.ts";

const require = createRequire(import.meta.url);

const FILES = {
  workflow: "workflow",
  "workflow/api": "api",
  "workflow/errors": "errors",
  "@workflow/errors": "errors",
  "@workflow/serde": "serde",
} as const;

/** The modules, as they were built beside the guest library. */
export function builtShims(): Shims {
  return Object.fromEntries(
    Object.entries(FILES).map(([specifier, name]) => [
      specifier,
      readFileSync(require.resolve(`#built/shims/${name}.js`), "utf8"),
    ]),
  );
}

/** The guest library of this build: every bundle is pinned to the one it was built with. */
export function guestLibraryText(): string {
  return readFileSync(require.resolve("#built/guest/workflow.js"), "utf8");
}
