/** `process.env` of a step's body: the secrets that the tenant was granted, and nothing else. */
import { createObject, define, keysOf } from "../primordials.ts";

/** Returns what grants them. `readTooEarly` hears of every look at the environment before that. */
export function installEnvironment(
  scope: object,
  readTooEarly: () => void,
): (granted: Readonly<Record<string, string>>) => void {
  const env = createObject(null);
  let isGranted = false;
  const process = {
    get env() {
      if (!isGranted) readTooEarly();
      return env;
    },
  };
  define(scope, "process", process, false);
  return (granted) => {
    isGranted = true;
    const names = keysOf(granted);
    for (let i = 0; i < names.length; i++) define(env, names[i]!, granted[names[i]!]);
  };
}
