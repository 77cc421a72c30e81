import { describe, expect, it } from "vitest";
import { NO_EGRESS, egressPolicySchema, isAllowed } from "../../tenants/egress-policy.ts";

const policy = (allow: unknown, more: object = {}) => egressPolicySchema.parse({ allow, ...more });

describe("an egress policy names hosts (T40)", () => {
  it("and without one nothing is named", () => {
    expect(isAllowed(NO_EGRESS, "example.com", 443)).toBe(false);
    expect(isAllowed(policy([]), "example.com", 443)).toBe(false);
  });

  it.each([
    ["example.com", "example.com", 443, true],
    ["example.com", "example.com", 80, false],
    ["example.com", "api.example.com", 443, false],
    ["example.com", "badexample.com", 443, false],
    ["*.example.com", "api.example.com", 443, true],
    ["*.example.com", "a.b.example.com", 443, true],
    ["*.example.com", "example.com", 443, false],
    ["*.example.com", "badexample.com", 443, false],
    ["*", "anything.test", 443, true],
    // An address has no name to be matched: it is named itself, or not at all.
    ["*", "203.0.113.7", 443, false],
    ["*", "2001:db8::1", 443, false],
    ["*.7", "203.0.113.7", 443, false],
    ["203.0.113.7", "203.0.113.7", 443, true],
    ["2001:db8::1", "2001:db8::1", 443, true],
  ])("%s names %s port %i: %s", (rule, host, port, isNamed) => {
    expect(isAllowed(policy([{ host: rule }]), host, port)).toBe(isNamed);
  });

  it("and the ports of a rule, instead of 443", () => {
    const both = policy([{ host: "example.com", ports: [80, 8443] }]);
    expect([80, 443, 8443].filter((port) => isAllowed(both, "example.com", port))).toEqual([
      80, 8443,
    ]);
  });
});

describe("an egress policy is refused", () => {
  it.each([
    ["a URL", [{ host: "https://example.com" }]],
    ["a host with a port", [{ host: "example.com:443" }]],
    ["capitals, which no request has", [{ host: "Example.com" }]],
    ["a dot at the end", [{ host: "example.com." }]],
    ["a star within a name", [{ host: "a*.example.com" }]],
    ["an empty host", [{ host: "" }]],
    ["port 0", [{ host: "example.com", ports: [0] }]],
    ["no ports", [{ host: "example.com", ports: [] }]],
    ["an unknown field", [{ host: "example.com", tls: false }]],
    ["more rules than there may be", Array.from({ length: 201 }, () => ({ host: "a.test" }))],
  ])("with %s", (_what, allow) => {
    expect(egressPolicySchema.safeParse({ allow }).success).toBe(false);
  });

  it.each(["10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "lan", "10.0.0.0/8 "])(
    "with the private range %s",
    (range) => {
      expect(egressPolicySchema.safeParse({ allow: [], privateRanges: [range] }).success).toBe(
        false,
      );
    },
  );

  it("but not with ranges of either family", () => {
    expect(policy([], { privateRanges: ["10.0.0.0/8", "fd00::/8"] }).privateRanges.length).toBe(2);
  });
});
