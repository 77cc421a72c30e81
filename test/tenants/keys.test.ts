import {
  chmodSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { wrappedKeyFiles } from "../../tenants/key-files.ts";
import {
  newWrappedKey,
  openMasterKeys,
  parseMasterKeys,
  readMasterKeyFile,
  unwrapDataKey,
  wrapDataKey,
} from "../../tenants/keys.ts";
import { ACME, ZETA, keysInMemory, masterKeys } from "./vaults.ts";

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
    expect(await files.sample()).toEqual({ tenantId: ACME, key });
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
    expect(await files.sample()).toBe(null);
    writeFileSync(join(at, "acme.key"), before.subarray(0, 40));
    await expect(files.get(ACME)).rejects.toMatchObject({ code: "MASTER_KEY" });
  });
});
