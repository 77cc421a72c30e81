/** All attempts. */
import type { Attack } from "./attack.ts";
import { bundleAttacks } from "./attacks/bundles.ts";
import { constructorAttacks } from "./attacks/constructors.ts";
import { cpuAttacks } from "./attacks/cpu.ts";
import { errorAttacks } from "./attacks/errors.ts";
import { floodAttacks } from "./attacks/floods.ts";
import { forgingAttacks } from "./attacks/forging.ts";
import { memoryAttacks } from "./attacks/memory.ts";
import { prototypeAttacks } from "./attacks/prototypes.ts";
import { runDataAttacks } from "./attacks/run-data.ts";
import { senseAttacks } from "./attacks/senses.ts";
import { valueAttacks } from "./attacks/values.ts";

export const AREAS: Readonly<Record<string, readonly Attack[]>> = {
  constructors: constructorAttacks,
  prototypes: prototypeAttacks,
  forging: forgingAttacks,
  errors: errorAttacks,
  "run data": runDataAttacks,
  senses: senseAttacks,
  values: valueAttacks,
  floods: floodAttacks,
  memory: memoryAttacks,
  bundles: bundleAttacks,
  cpu: cpuAttacks,
};
