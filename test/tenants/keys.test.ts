import {
  chmodSync,
  existsSync,
  linkSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { wrappedKeyFiles } from "../../tenants/key-files.ts";
import { newWrappedKey, unwrapDataKey, wrapDataKey } from "../../tenants/keys.ts";
import {
  addMasterKey,
  openMasterKeys,
  parseMasterKeys,
  readMasterKeyFile,
  removeMasterKey,
} from "../../tenants/master-key-file.ts";
import { Vault } from "../../tenants/vault.ts";
import type { TenantId } from "../../engine/ids.ts";
import { ACME, RUN, ZETA, keysInMemory, masterKeys } from "./vaults.ts";

const folder = () => mkdtempSync(join(tmpdir(), "baton-keys-"));
const LINE = `1:${Buffer.alloc(32, 7).toString("base64")}\n`;

describe("the master key file", () => {
  it("is made by an embedded start, for its owner alone, and is the same at the next start", async () => {
    const path = join(folder(), "master.key");
    const wrappedKeys = keysInMemory();
    const first = await openMasterKeys({ path, mayCreate: true, wrappedKeys });
    expect(statSync(path).mode & 0o777).toBe(0o600);
    await wrappedKeys.add(ACME, newWrappedKey(first, ACME));
    const second = await openMasterKeys({ path, mayCreate: true, wrappedKeys });
    expect(second.byVersion.get(1)).toEqual(first.byVersion.get(1));
  });

  it("is not made again once a wrapped key exists, nor where only the operator may", async () => {
    const wrappedKeys = keysInMemory();
    const path = join(folder(), "master.key");
    await expect(openMasterKeys({ path, mayCreate: false, wrappedKeys })).rejects.toMatchObject({
      code: "MASTER_KEY",
    });
    await wrappedKeys.add(ACME, newWrappedKey(masterKeys(7), ACME));
    await expect(openMasterKeys({ path, mayCreate: true, wrappedKeys })).rejects.toMatchObject({
      code: "MASTER_KEY",
    });
    expect(existsSync(path)).toBe(false);
  });

  it("stops the start if it is not the one that wrapped the data keys", async () => {
    const wrappedKeys = keysInMemory();
    await wrappedKeys.add(ACME, newWrappedKey(masterKeys(8), ACME));
    const path = join(folder(), "master.key");
    writeFileSync(path, LINE, { mode: 0o600 });
    await expect(openMasterKeys({ path, mayCreate: true, wrappedKeys })).rejects.toMatchObject({
      code: "MASTER_KEY",
    });
  });

  it.each([0o640, 0o604, 0o644, 0o620])("is refused with mode %o", (mode) => {
    const path = join(folder(), "master.key");
    writeFileSync(path, LINE);
    chmodSync(path, mode);
    expect(() => readMasterKeyFile(path)).toThrow("owner alone");
    chmodSync(path, 0o600);
    expect(readMasterKeyFile(path).current).toBe(1);
  });

  it("is refused as a link, and when malformed, without repeating its text", () => {
    const at = folder();
    writeFileSync(join(at, "real"), LINE, { mode: 0o600 });
    symlinkSync(join(at, "real"), join(at, "link"));
    expect(() => readMasterKeyFile(join(at, "link"))).toThrow("opened");
    const secret = Buffer.alloc(31, 9).toString("base64");
    for (const text of ["", "# only a comment", `1:${secret}`, secret, LINE + LINE]) {
      expect(() => parseMasterKeys(text, "file")).toThrow(
        expect.objectContaining({ code: "MASTER_KEY" }),
      );
    }
    expect(() => parseMasterKeys(`1:${secret}`, "file")).not.toThrow(secret);
  });
});

describe("a rotation of the master key (T44)", () => {
  async function setUp() {
    const at = folder();
    const path = join(at, "master.key");
    const wrappedKeys = await wrappedKeyFiles(join(at, "tenants"));
    const keys = await openMasterKeys({ path, mayCreate: true, wrappedKeys });
    const vault = new Vault(keys, wrappedKeys, () => readMasterKeyFile(path));
    for (const tenantId of [ACME, ZETA]) await vault.createDataKey(tenantId);
    return { at, path, wrappedKeys, vault };
  }
  const all = async () => true;
  const place = {
    run: { tenantId: ACME, runId: RUN },
    purpose: "payload",
    binding: ["field"],
  } as const;

  it("re-wraps every data key, after which the old one can go and what was sealed still opens", async () => {
    const { path, wrappedKeys, vault } = await setUp();
    const sealed = (await vault.forTenant(ACME)).seal(place, Buffer.from("kept"));
    const before = readFileSync(path, "utf8").trim();
    expect(addMasterKey(path)).toBe(2);
    await expect(removeMasterKey(path, 1, wrappedKeys)).rejects.toThrow("rotate first");
    expect(await vault.rotateMasterKey(all)).toEqual({ current: 2, rewrapped: 2, removable: [1] });
    await expect(removeMasterKey(path, 2, wrappedKeys)).rejects.toThrow("version 2");
    await removeMasterKey(path, 1, wrappedKeys);
    expect(readFileSync(path, "utf8")).not.toContain(before);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const keys = await openMasterKeys({ path, mayCreate: false, wrappedKeys });
    const opened = (await new Vault(keys, wrappedKeys).forTenant(ACME)).open(place, sealed);
    expect(Buffer.from(opened).toString()).toBe("kept");
  });

  it("that was cut short leaves keys of both versions, and goes on where it stopped", async () => {
    const { path, wrappedKeys, vault } = await setUp();
    addMasterKey(path);
    const dies = async (tenantId: TenantId) => {
      if (tenantId === ZETA) throw new Error("the process dies here");
      return true;
    };
    await expect(vault.rotateMasterKey(dies)).rejects.toThrow("dies here");
    const versions = async () =>
      Promise.all([ACME, ZETA].map(async (id) => (await wrappedKeys.get(id))?.masterVersion));
    expect(await versions()).toEqual([2, 1]);
    const keys = await openMasterKeys({ path, mayCreate: false, wrappedKeys });
    await expect(removeMasterKey(path, 1, wrappedKeys)).rejects.toThrow("rotate first");
    const again = new Vault(keys, wrappedKeys, () => readMasterKeyFile(path));
    expect(await again.rotateMasterKey(all)).toEqual({ current: 2, rewrapped: 1, removable: [1] });
    expect(await versions()).toEqual([2, 2]);
  });

  it("by another process is followed by one that has not read the new key yet", async () => {
    const { path, wrappedKeys, vault } = await setUp();
    const older = new Vault(readMasterKeyFile(path), wrappedKeys, () => readMasterKeyFile(path));
    addMasterKey(path);
    await vault.rotateMasterKey(all);
    expect((await older.forTenant(ZETA)).tokenHash("t")).toBe(
      (await vault.forTenant(ZETA)).tokenHash("t"),
    );
  });

  it("does not bring back the key of a tenant that is deleted meanwhile", async () => {
    const { path, wrappedKeys, vault } = await setUp();
    addMasterKey(path);
    let looks = 0;
    // Kept at the first look; by the second, another process deletes it.
    await vault.rotateMasterKey(async (tenantId) => tenantId !== ACME || looks++ === 0);
    expect(await wrappedKeys.tenantIds()).toEqual([ZETA]);
  });

  it("without the old key stops the next start, whichever tenant needs it (T11)", async () => {
    const { path, wrappedKeys, vault } = await setUp();
    addMasterKey(path);
    await vault.rotateMasterKey(async (tenantId) => tenantId !== ZETA);
    const [, second] = readFileSync(path, "utf8").split("\n");
    writeFileSync(path, `${second}\n`, { mode: 0o600 });
    await expect(openMasterKeys({ path, mayCreate: true, wrappedKeys })).rejects.toMatchObject({
      code: "MASTER_KEY",
    });
  });
});

describe("data keys", () => {
  it("open with the version that wrapped them, also after a rotation of the master key", () => {
    const old = masterKeys(1);
    const rotated = masterKeys(1, 2);
    const wrapped = newWrappedKey(old, ACME);
    const key = unwrapDataKey(rotated, ACME, wrapped);
    const again = wrapDataKey(rotated, ACME, key);
    expect(again.masterVersion).toBe(2);
    expect(unwrapDataKey(rotated, ACME, again)).toEqual(key);
    expect(() => unwrapDataKey(old, ACME, again)).toThrow("version 2");
  });

  it("do not open for another tenant, another version or when changed", () => {
    const keys = masterKeys(1);
    const wrapped = newWrappedKey(keys, ACME);
    const flipped = Buffer.from(wrapped.wrapped, "base64");
    flipped.writeUInt8(flipped.readUInt8(20) ^ 1, 20);
    const refused = expect.objectContaining({ code: "MASTER_KEY" }) as Error;
    expect(() => unwrapDataKey(keys, ZETA, wrapped)).toThrow(refused);
    expect(() => unwrapDataKey(keys, ACME, { ...wrapped, keyVersion: 2 })).toThrow(refused);
    expect(() => unwrapDataKey(masterKeys(2), ACME, wrapped)).toThrow(refused);
    expect(() =>
      unwrapDataKey(keys, ACME, { ...wrapped, wrapped: flipped.toString("base64") }),
    ).toThrow(refused);
  });
});

describe("wrapped keys in files", () => {
  it("are never written over, and are readable by their owner alone", async () => {
    const at = join(folder(), "keys");
    const files = await wrappedKeyFiles(at);
    const key = newWrappedKey(masterKeys(1), ACME);
    expect(await files.add(ACME, key)).toBe(true);
    expect(await files.add(ACME, newWrappedKey(masterKeys(1), ACME))).toBe(false);
    expect(await files.get(ACME)).toEqual(key);
    expect(await files.tenantIds()).toEqual([ACME]);
    expect(statSync(at).mode & 0o777).toBe(0o700);
    expect(statSync(join(at, "acme.key")).mode & 0o777).toBe(0o600);
  });

  it("are gone once destroyed, and a damaged one is not taken for a missing one", async () => {
    const at = folder();
    const files = await wrappedKeyFiles(at);
    await files.add(ACME, newWrappedKey(masterKeys(1), ACME));
    const before = readFileSync(join(at, "acme.key"));
    await files.destroy(ACME);
    await files.destroy(ACME);
    expect(await files.get(ACME)).toBe(null);
    expect(await files.tenantIds()).toEqual([]);
    writeFileSync(join(at, "acme.key"), before.subarray(0, 40));
    await expect(files.get(ACME)).rejects.toMatchObject({ code: "MASTER_KEY" });
  });

  it("that a process had begun to destroy are destroyed by the next one, and stop no start", async () => {
    const at = folder();
    const files = await wrappedKeyFiles(at);
    await files.add(ACME, newWrappedKey(masterKeys(1), ACME));
    await files.add(ZETA, newWrappedKey(masterKeys(1), ZETA));
    renameSync(join(at, "acme.key"), join(at, ".gone-0123456789abcdef"));
    const again = await wrappedKeyFiles(at);
    expect(readdirSync(at)).toEqual(["zeta.key"]);
    expect(await again.tenantIds()).toEqual([ZETA]);
  });

  it("that a process had begun to write are cleared, and a key in use is not harmed by it", async () => {
    const at = folder();
    const files = await wrappedKeyFiles(at);
    const key = newWrappedKey(masterKeys(1), ACME);
    await files.add(ACME, key);
    linkSync(join(at, "acme.key"), join(at, ".new-a"));
    writeFileSync(join(at, ".new-b"), JSON.stringify(key));
    writeFileSync(join(at, ".new-young"), JSON.stringify(key));
    for (const name of [".new-a", ".new-b"]) utimesSync(join(at, name), 0, 0);
    const again = await wrappedKeyFiles(at);
    expect(readdirSync(at).toSorted()).toEqual([".new-young", "acme.key"]);
    expect(await again.get(ACME)).toEqual(key);
  });

  it("do not come back by being wrapped anew after they were destroyed (T45)", async () => {
    const at = folder();
    const files = await wrappedKeyFiles(at);
    const key = newWrappedKey(masterKeys(1), ACME);
    await files.add(ACME, key);
    const [, isReplaced] = await Promise.all([files.destroy(ACME), files.replace(ACME, key)]);
    expect(isReplaced).toBe(false);
    expect(readdirSync(at)).toEqual([]);
  });
});
