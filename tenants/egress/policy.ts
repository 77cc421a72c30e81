/**
 * Whether a request may go where it wants to, under a tenant's policy (egress-policy.ts). Pure.
 *
 * T51  A request is judged twice: by what its URL says, and by each address that it connects to.
 */
import { isAllowed } from "../egress-policy.ts";
import type { EgressPolicy } from "../egress-policy.ts";
import { addressOf, isInside, isPublic, meantAddress, networkOf } from "./addresses.ts";

/** Null: allowed, as far as a look at the URL can tell; else why not, for the tenant. */
export function denialOf(policy: EgressPolicy, url: URL): string | null {
  if (policy.allow.length === 0) return "the tenant has no egress policy that allows any request";
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    return `only http: and https: leave a step, not ${url.protocol}`;
  }
  if (url.username !== "" || url.password !== "") return "a URL carries no credentials";
  const name = hostOf(url);
  const port = portOf(url);
  if (!isAllowed(policy, name, port)) {
    return `the egress policy does not allow ${name} on port ${port}`;
  }
  const isForbidden = addressOf(name) !== null && !mayConnect(policy, name);
  return isForbidden ? unreachable(name) : null;
}

/** Whether a connection may be made to the address, whatever name led there. */
export function mayConnect(policy: EgressPolicy, addressText: string): boolean {
  const address = addressOf(addressText);
  if (address === null) return false;
  if (isPublic(address)) return true;
  const meant = meantAddress(address);
  return policy.privateRanges.some((text) => {
    const network = networkOf(text);
    return network !== null && isInside(meant, network);
  });
}

export function unreachable(name: string): string {
  return `${name} is at an address that the egress policy does not allow`;
}

/** The name or the address that a URL leads to, in one form. */
function hostOf(url: URL): string {
  const name = url.hostname.replace(/\.$/, "");
  return name.startsWith("[") ? name.slice(1, -1) : name;
}

function portOf(url: URL): number {
  if (url.port !== "") return Number(url.port);
  return url.protocol === "https:" ? 443 : 80;
}
