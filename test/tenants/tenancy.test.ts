import { beforeEach, describe, expect, it } from "vitest";
import { API_KEYS_MAX } from "../../tenants/api-keys.ts";
import { TenantPolicy } from "../../tenants/policy.ts";
import { SERVER_QUOTAS } from "../../tenants/quota.ts";
import { TenantRegistry } from "../../tenants/registry.ts";
import { SECRETS_MAX, SECRET_BYTES_MAX } from "../../tenants/secrets.ts";
import type { TenantId } from "../../engine/ids.ts";
import { Tenancy } from "../../tenants/tenancy.ts";
import { Storage } from "../../tenants/storage.ts";
import { silentLog } from "../../worlds/platform.ts";
import { UsageCounters } from "../../tenants/usage.ts";
import { Vault } from "../../tenants/vault.ts";
import { RecordingWorld } from "./recording-world.ts";
import { ACME, ZETA, keysInMemory, masterKeys } from "./vaults.ts";

const clock = { time: 1000, now: () => clock.time, setTimer: () => () => undefined };
let below: RecordingWorld;
let tenancy: Tenancy;
let policy: TenantPolicy;
let recovered: TenantId[];

beforeEach(async () => {
  clock.time = 1000;
  below = new RecordingWorld();
  const vault = new Vault(masterKeys(1), keysInMemory());
  const records = below.world.tenants;
  const registry = new TenantRegistry({ records, vault, clock, defaults: SERVER_QUOTAS });
  const usage = new UsageCounters({ records: below.world.tenants, clock, log: silentLog });
  const storage = new Storage({ records: below.world.tenants, clock, log: silentLog });
  policy = new TenantPolicy({ world: below.world, registry, vault, usage, storage, clock });
  recovered = [];
  const engine = {
    recoverTenant: async (tenantId: TenantId) => recovered.push(tenantId),
    inUse: () => ({ runsDelivered: 0, steps: 0, liveHeapBytes: 0, snapshotBytes: null }),
    forgetTenant: () => undefined,
  };
  tenancy = new Tenancy({
    usage,
    storage,
    world: below.world,
    registry,
    policy,
    vault,
    clock,
    engine,
    keyFile: { add: () => 2, remove: async () => undefined },
    onChanged: () => undefined,
  });
  await tenancy.create(ACME);
  await tenancy.create(ZETA);
});

const stored = () => JSON.stringify([...below.records.values()]);
const answerTo = async (key: string): Promise<unknown> => {
  try {
    return (await tenancy.authenticate(key)).tenantId;
  } catch (error) {
    const { code, message, details } = error as { code: string; message: string; details: object };
    return { code, message, details };
  }
};

describe("API keys (T41, T42)", () => {
  it("are told once, and neither their text nor its secret part is stored", async () => {
    const { key, keyId } = await tenancy.apiKeys.issue(ACME, { label: "ci" });
    expect(key).toMatch(/^baton_acme_[0-9a-f]{16}_[\w-]{43}$/);
    expect(await tenancy.authenticate(key)).toEqual({ tenantId: ACME, keyId, status: "active" });
    expect(stored()).not.toContain(key.split("_")[3]);
    expect(await tenancy.apiKeys.list(ACME)).toEqual([
      { keyId, label: "ci", createdAt: 1000, expiresAt: null },
    ]);
    expect(JSON.stringify(await tenancy.get(ACME))).not.toContain("hash");
  });

  it("unknown, revoked, expired, foreign, changed or malformed, are refused in the same words", async () => {
    const good = await tenancy.apiKeys.issue(ACME);
    const revoked = await tenancy.apiKeys.issue(ACME);
    await tenancy.apiKeys.revoke(ACME, revoked.keyId);
    const old = await tenancy.apiKeys.issue(ACME);
    await tenancy.apiKeys.rotate(ACME, old.keyId, { overlapMs: 500 });
    clock.time += 500;
    const [, , id, secret] = good.key.split("_");
    const other = await tenancy.apiKeys.issue(ZETA);
    const answers = await Promise.all(
      [
        revoked.key,
        old.key,
        `baton_zeta_${id}_${secret}`,
        `baton_nobody_${id}_${secret}`,
        `baton_acme_${other.keyId}_${other.key.split("_")[3]}`,
        `baton_acme_${id}_${"A".repeat(43)}`,
        `baton_acme_${"0".repeat(16)}_${secret}`,
        `${good.key} `,
        good.key.slice(0, -1),
        "",
        "__proto__",
      ].map(answerTo),
    );
    expect(await answerTo(good.key)).toBe(ACME);
    expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toEqual(
      new Set([JSON.stringify(answers[0])]),
    );
    expect(answers[0]).toMatchObject({ code: "API_KEY_REFUSED" });
  });

  it("that were rotated stop at once, or at the end of the overlap and not before", async () => {
    const first = await tenancy.apiKeys.issue(ACME, { label: "deploy" });
    const second = await tenancy.apiKeys.rotate(ACME, first.keyId, { overlapMs: 500 });
    expect(second.label).toBe("deploy");
    clock.time += 499;
    expect(await answerTo(first.key)).toBe(ACME);
    clock.time += 1;
    expect(await answerTo(first.key)).toMatchObject({ code: "API_KEY_REFUSED" });
    const third = await tenancy.apiKeys.rotate(ACME, second.keyId);
    expect(await answerTo(second.key)).toMatchObject({ code: "API_KEY_REFUSED" });
    expect(await answerTo(third.key)).toBe(ACME);
  });

  it("cannot be given a longer life by rotating them again", async () => {
    const first = await tenancy.apiKeys.issue(ACME);
    await tenancy.apiKeys.rotate(ACME, first.keyId, { overlapMs: 100 });
    await tenancy.apiKeys.rotate(ACME, first.keyId, { overlapMs: 10_000 });
    clock.time += 100;
    expect(await answerTo(first.key)).toMatchObject({ code: "API_KEY_REFUSED" });
  });

  it("are bounded in number, and a key that expired makes room", async () => {
    const keys = [];
    for (let i = 0; i < API_KEYS_MAX; i++) keys.push(await tenancy.apiKeys.issue(ACME));
    await expect(tenancy.apiKeys.issue(ACME)).rejects.toMatchObject({
      code: "QUOTA_EXCEEDED",
      details: { field: "apiKeysMax", used: API_KEYS_MAX + 1, allowed: API_KEYS_MAX },
    });
    await tenancy.apiKeys.rotate(ACME, keys[0]?.keyId ?? "");
    await tenancy.apiKeys.revoke(ACME, keys[1]?.keyId ?? "");
    expect(await answerTo((await tenancy.apiKeys.issue(ACME)).key)).toBe(ACME);
  });

  it("tell whether their tenant is suspended, which is the door's to act on", async () => {
    const { key } = await tenancy.apiKeys.issue(ACME);
    await tenancy.suspend(ACME);
    expect(await tenancy.authenticate(key)).toMatchObject({ status: "suspended" });
  });

  it("of no tenant are issued, listed or revoked", async () => {
    const refused = { code: "TENANT_NOT_FOUND" };
    await expect(tenancy.apiKeys.issue("nobody")).rejects.toMatchObject(refused);
    await expect(tenancy.apiKeys.list("nobody")).rejects.toMatchObject(refused);
    await expect(tenancy.apiKeys.revoke(ACME, "0".repeat(16))).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });
});

describe("secrets (T43)", () => {
  it("are read by step code of their tenant alone, and listed by name", async () => {
    await tenancy.secrets.set(ACME, "API_TOKEN", "acme's own value");
    await tenancy.secrets.set(ZETA, "API_TOKEN", "zeta's own value");
    expect(await policy.secretsOf(ACME)).toEqual({ API_TOKEN: "acme's own value" });
    expect(await policy.secretsOf(ZETA)).toEqual({ API_TOKEN: "zeta's own value" });
    expect(await tenancy.secrets.list(ACME)).toEqual(["API_TOKEN"]);
    expect(JSON.stringify(await tenancy.get(ACME))).not.toContain("own value");
    expect(stored()).not.toContain("own value");
    expect(stored()).not.toContain(Buffer.from("acme's own value").toString("base64").slice(0, 12));
  });

  it("that are moved to another tenant, or to another name, do not open", async () => {
    await tenancy.secrets.set(ACME, "A", "value of A");
    await tenancy.secrets.set(ACME, "B", "value of B");
    await tenancy.secrets.set(ZETA, "A", "other");
    const acme = below.records.get(ACME)?.body ?? "";
    const { secrets } = JSON.parse(acme) as { secrets: Record<string, string> };
    const swapped = {
      ...JSON.parse(acme),
      secrets: { A: secrets["B"], B: secrets["A"] },
    } as object;
    const zeta = JSON.parse(below.records.get(ZETA)?.body ?? "") as object;
    const revision = 9;
    below.records.set(ACME, { tenantId: ACME, revision, body: JSON.stringify(swapped) });
    below.records.set(ZETA, {
      tenantId: ZETA,
      revision,
      body: JSON.stringify({ ...zeta, secrets }),
    });
    clock.time += 1000;
    await expect(policy.secretsOf(ACME)).rejects.toMatchObject({ code: "PAYLOAD_UNREADABLE" });
    await expect(policy.secretsOf(ZETA)).rejects.toMatchObject({ code: "PAYLOAD_UNREADABLE" });
  });

  it("are replaced and taken away at once", async () => {
    await tenancy.secrets.set(ACME, "A", "first");
    await policy.secretsOf(ACME);
    await tenancy.secrets.set(ACME, "A", "second");
    expect(await policy.secretsOf(ACME)).toEqual({ A: "second" });
    await tenancy.secrets.delete(ACME, "A");
    await tenancy.secrets.delete(ACME, "A");
    expect(await policy.secretsOf(ACME)).toEqual({});
  });

  it("fit up to their limits and not beyond", async () => {
    await tenancy.secrets.set(ACME, "LONG", "é".repeat(SECRET_BYTES_MAX / 2));
    await expect(
      tenancy.secrets.set(ACME, "LONG", "é".repeat(SECRET_BYTES_MAX / 2) + "x"),
    ).rejects.toMatchObject({ code: "INVALID_ARGUMENT", details: { field: "secretBytes" } });
    for (let i = 1; i < SECRETS_MAX; i++) await tenancy.secrets.set(ACME, `S${i}`, "value");
    await expect(tenancy.secrets.set(ACME, "ONE_MORE", "value")).rejects.toMatchObject({
      code: "QUOTA_EXCEEDED",
      details: { field: "secretsMax", used: SECRETS_MAX + 1, allowed: SECRETS_MAX },
    });
    await tenancy.secrets.set(ACME, "S1", "replaced, since it is no new one");
    expect(Object.keys(await policy.secretsOf(ACME)).length).toBe(SECRETS_MAX);
  });

  it.each(["", "1A", "A-B", "A B", "__proto__", "_A", "a".repeat(129), "A\n"])(
    "are not named %j",
    async (name) => {
      await expect(tenancy.secrets.set(ACME, name, "value")).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
        details: { field: "name" },
      });
      expect(await tenancy.secrets.list(ACME)).toEqual([]);
    },
  );

  it.each(["", "a lone \ud800"])("do not hold %j", async (value) => {
    await expect(tenancy.secrets.set(ACME, "A", value)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });
});

describe("egress", () => {
  it("is nothing until the operator names hosts, and nothing again once taken back", async () => {
    expect((await policy.egressRulesOf(ACME))?.policy).toEqual({ allow: [], privateRanges: [] });
    await tenancy.setEgress(ACME, { allow: [{ host: "api.example.com" }] });
    const named = { allow: [{ host: "api.example.com" }], privateRanges: [] };
    expect((await policy.egressRulesOf(ACME))?.policy).toEqual(named);
    expect((await tenancy.get(ACME))?.egress).toEqual(named);
    expect((await policy.egressRulesOf(ZETA))?.policy).toEqual({ allow: [], privateRanges: [] });
    await tenancy.setEgress(ACME, null);
    expect((await policy.egressRulesOf(ACME))?.policy).toEqual({ allow: [], privateRanges: [] });
  });

  it("is refused with the field that is wrong, and left as it was", async () => {
    await expect(
      tenancy.setEgress(ACME, { allow: [{ host: "good.test" }, { host: "http://bad" }] }),
    ).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      details: { field: "egress.allow.1.host" },
    });
    expect((await tenancy.get(ACME))?.egress).toBe(null);
  });
});

describe("resuming", () => {
  it("has the tenant's runs looked at, once it is active again", async () => {
    await tenancy.suspend(ACME);
    expect(recovered).toEqual([]);
    await tenancy.resume(ACME);
    expect(recovered).toEqual([ACME]);
    expect(await policy.standingOf(ACME)).toMatchObject({ status: "active" });
  });
});
