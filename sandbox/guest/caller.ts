/** Where in the tenant's code something was called: for what a heap tells of a bundle that loads. */
import { ErrorConstructor, indexOf, stringSlice } from "./primordials.ts";

const PLACE_CHARS_MAX = 40;

/** `at bundle.js:3:7`, the first frame that is not the library's; empty where there is none. */
export function callerIn(bundleFile: string): string {
  const stack = new ErrorConstructor().stack ?? "";
  const from = indexOf(stack, `${bundleFile}:`);
  if (from < 0) return "";
  const rest = stringSlice(stack, from, from + PLACE_CHARS_MAX);
  const end = indexOf(rest, ")");
  return `at ${end < 0 ? rest : stringSlice(rest, 0, end)}`;
}
