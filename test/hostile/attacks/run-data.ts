/** Reading or changing what belongs to another run: globals, built-ins, memory, registries. */
import { LOOT, bundle, victimTouched } from "../attack.ts";
import type { Attack } from "../attack.ts";

interface Mark {
  readonly name: string;
  /** Runs in the attacker's heap, at its top level and in its workflow. */
  readonly leave: string;
  /** An expression of the victim: whether it sees the attacker. */
  readonly find: string;
}

const MARKS: readonly Mark[] = [
  {
    name: "a new global",
    leave: `globalThis.left = "secret";`,
    find: `globalThis.left === "secret"`,
  },
  {
    name: "a re-assigned global",
    leave: `globalThis.parseFloat = () => "left";`,
    find: `parseFloat("1") === "left"`,
  },
  {
    name: "a symbol-keyed global",
    leave: `globalThis[Symbol.for("left")] = "secret";`,
    find: `globalThis[Symbol.for("left")] === "secret"`,
  },
  {
    name: "a deleted global",
    leave: `delete globalThis.encodeURIComponent;`,
    find: `typeof encodeURIComponent === "undefined"`,
  },
  {
    name: "a mutated built-in",
    leave: `Array.prototype.flat = () => "left";`,
    find: `[1].flat() === "left"`,
  },
  {
    name: "a property on a shared intrinsic without a name",
    leave: `Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())).left = 1;`,
    find: `Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())).left === 1`,
  },
  {
    name: "a frozen prototype",
    leave: `Object.freeze(Set.prototype);`,
    find: `Object.isFrozen(Set.prototype)`,
  },
  {
    name: "a registered workflow",
    leave: `globalThis.__private_workflows.set("left", async () => 1);`,
    find: `globalThis.__private_workflows.has("left")`,
  },
  {
    name: "a registered class",
    leave: `(globalThis[Symbol.for("workflow-class-registry")] ||= new Map()).set("class//left", class {});`,
    find: `(globalThis[Symbol.for("workflow-class-registry")] || new Map()).has("class//left")`,
  },
  {
    name: "a patched library object",
    leave: `try { Object.assign(globalThis[Symbol.for("baton.guest")] || globalThis, { left: 1 }); } catch (e) {}
      try { globalThis[Symbol.for("WORKFLOW_SLEEP")].left = 1; } catch (e) { globalThis.left = 1; }`,
    find: `(globalThis[Symbol.for("baton.guest")] || globalThis).left === 1
      || globalThis[Symbol.for("WORKFLOW_SLEEP")].left === 1`,
  },
  {
    name: "a replaced prototype of the global",
    leave: `Object.setPrototypeOf(globalThis, { left: "secret" });`,
    find: `globalThis.left === "secret"`,
  },
  {
    name: "a getter on Object.prototype",
    leave: `Object.defineProperty(Object.prototype, "left", { configurable: true, get: () => "secret" });`,
    find: `({}).left === "secret"`,
  },
];

/** Both runs are opened one after the other, so that a pool may hand on the memory. */
function pair(mark: Mark, tenant: "same" | "other"): Attack {
  const whose = tenant === "same" ? "the tenant's next run" : "another tenant's run";
  return {
    name: `${mark.name} is not seen by ${whose}`,
    row: "F13",
    program: bundle(`${mark.leave}\nawait step("a")(1);\nreturn "left";`),
    victim: {
      program: bundle(`if (${mark.find}) return "${LOOT}"; await step("a")(1); return "clean";`),
      tenant,
    },
    weakening: "shared_heap",
    succeeded: victimTouched,
  };
}

export const runDataAttacks: readonly Attack[] = MARKS.flatMap((mark) => [
  pair(mark, "same"),
  pair(mark, "other"),
]);
