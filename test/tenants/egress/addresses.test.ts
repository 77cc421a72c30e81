import { describe, expect, it } from "vitest";
import {
  addressOf,
  isInside,
  isPublic,
  meantAddress,
  networkOf,
} from "../../../tenants/egress/addresses.ts";

function bytesOf(text: string) {
  const bytes = addressOf(text);
  if (bytes === null) throw new Error(`${text} is no address`);
  return bytes;
}

describe("an address", () => {
  it.each([
    ["1.2.3.4", [1, 2, 3, 4]],
    ["::", Array(16).fill(0)],
    ["::1", [...Array<number>(15).fill(0), 1]],
    ["2001:db8::a:b", [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 0, 11]],
    ["::ffff:10.0.0.1", [...Array<number>(10).fill(0), 255, 255, 10, 0, 0, 1]],
  ])("%s is read as its bytes", (text, bytes) => {
    expect(addressOf(text)).toEqual(bytes);
  });

  it.each([
    "",
    "a.example",
    "1.2.3",
    "0177.0.0.1",
    "1.2.3.4:80",
    "[::1]",
    "fe80::1%eth0",
    "::1/128",
  ])("%s is none", (text) => {
    expect(addressOf(text)).toBeNull();
  });
});

describe("public", () => {
  it.each([
    "1.1.1.1",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450::1",
    "2001:4860:4860::8888",
    "::ffff:1.1.1.1",
    "64:ff9b::1.1.1.1",
  ])("is %s", (text) => {
    expect(isPublic(bytesOf(text))).toBe(true);
  });

  it.each([
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.0",
    "10.255.255.255",
    "100.64.0.0",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.254",
    "169.254.169.254",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.1.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.7",
    "203.0.113.9",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::1.1.1.1",
    "100::1",
    "2001::1",
    "2001:20::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "3fff::1",
    "fc00::1",
    "fd12:3456::1",
    "fe80::1",
    "fec0::1",
    "ff02::1",
    "4000::1",
  ])("is not %s", (text) => {
    expect(isPublic(bytesOf(text))).toBe(false);
  });
});

describe("a network", () => {
  it.each(["", "10.0.0.0", "10.0.0.0/33", "::/129", "10.0.0.0/8/8", "a/8", "10.0.0.0/-1"])(
    "%s is none",
    (text) => {
      expect(networkOf(text)).toBeNull();
    },
  );

  it.each([
    ["10.1.0.0/16", "10.1.255.255", true],
    ["10.1.0.0/16", "10.2.0.0", false],
    ["10.1.2.128/25", "10.1.2.127", false],
    ["10.1.2.128/25", "10.1.2.128", true],
    ["0.0.0.0/0", "1.2.3.4", true],
    ["0.0.0.0/0", "::1", false],
    ["fd00::/8", "fdff::1", true],
    ["fd00::/8", "fe00::1", false],
  ])("%s holds %s: %s", (network, address, expected) => {
    const parsed = networkOf(network);
    expect(parsed !== null && isInside(bytesOf(address), parsed)).toBe(expected);
  });

  it("is compared with the IPv4 address that an IPv6 one stands for", () => {
    expect(meantAddress(bytesOf("::ffff:10.0.0.1"))).toEqual([10, 0, 0, 1]);
    expect(meantAddress(bytesOf("64:ff9b::10.0.0.1"))).toEqual([10, 0, 0, 1]);
    expect(meantAddress(bytesOf("fd00::10.0.0.1"))).toHaveLength(16);
  });
});
