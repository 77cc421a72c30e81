/**
 * Addresses of the network, and which of them are public. Pure.
 *
 * Owns the blocks that tenants' requests do not reach unless the operator lets them. Everything that
 * is not known to be public is not (T50).
 *
 * T50  An address is public only by a rule that says so; an IPv4 address inside an IPv6 one counts as
 *      itself.
 */
import { isIP, isIPv4 } from "node:net";

/** 4 or 16 bytes. */
export type AddressBytes = readonly number[];

export interface Network {
  readonly bytes: AddressBytes;
  readonly prefixBits: number;
}

/** The address that the text is, in its one plain form; null for anything else (zones too). */
export function addressOf(text: string): AddressBytes | null {
  if (isIP(text) === 0 || text.includes("%")) return null;
  if (isIPv4(text)) return text.split(".").map(Number);
  // The parser of URLs writes each address in one way: hexadecimal groups, one gap at most.
  const [head = "", tail] = new URL(`http://[${text}]`).hostname.slice(1, -1).split("::");
  const front = groupsOf(head);
  const back = groupsOf(tail ?? "");
  const gap = Array.from({ length: 8 - front.length - back.length }, () => 0);
  return [...front, ...gap, ...back].flatMap((group) => [group >> 8, group & 255]);
}

function groupsOf(text: string): number[] {
  return text === "" ? [] : text.split(":").map((group) => parseInt(group, 16));
}

/** A block such as `10.0.0.0/8` or `fd00::/8`; null for a text that is none. */
export function networkOf(text: string): Network | null {
  const [, address = "", bits = ""] = /^([^/]+)\/(\d{1,3})$/.exec(text) ?? [];
  const bytes = addressOf(address);
  const prefixBits = Number(bits);
  if (bytes === null || prefixBits > bytes.length * 8) return null;
  return { bytes, prefixBits };
}

export function isInside(address: AddressBytes, { bytes, prefixBits }: Network): boolean {
  if (address.length !== bytes.length) return false;
  return bytes.every((byte, i) => {
    const bits = Math.min(Math.max(prefixBits - i * 8, 0), 8);
    const mask = (0xff << (8 - bits)) & 0xff;
    return (byte & mask) === ((address[i] ?? 0) & mask);
  });
}

/** The IPv4 address that an IPv6 address stands for (mapped, or behind NAT64), else the address. */
export function meantAddress(address: AddressBytes): AddressBytes {
  const isEmbedded = EMBEDDING.some((network) => isInside(address, network));
  return isEmbedded ? address.slice(12) : address;
}

/** Whether anyone may reach it: not private, not this machine, not a network of special use. */
export function isPublic(address: AddressBytes): boolean {
  const meant = meantAddress(address);
  if (meant.length === 4) return !SPECIAL_V4.some((network) => isInside(meant, network));
  return isInside(meant, GLOBAL_V6) && !SPECIAL_V6.some((network) => isInside(meant, network));
}

function known(text: string): Network {
  const network = networkOf(text);
  if (network === null) throw new Error(`${text} is no network`);
  return network;
}

const EMBEDDING = ["::ffff:0:0/96", "64:ff9b::/96"].map(known);

/** Of the registry of special-purpose IPv4 addresses, and multicast. */
const SPECIAL_V4 = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
].map(known);

/** All of IPv6 that is given out for use on the internet. */
const GLOBAL_V6 = known("2000::/3");
/** Inside of it: tunnels that carry IPv4 addresses, documentation, protocol assignments. */
const SPECIAL_V6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"].map(known);
