import { createHook, sleep } from "workflow";

/** Something that a run waits for; each says who it is once it has come. */
export type Entrant =
  | { readonly kind: "step"; readonly name: "a" | "b" }
  | { readonly kind: "hook"; readonly token: string }
  | { readonly kind: "sleep"; readonly ms: number };

async function a(): Promise<string> {
  "use step";
  return "a";
}

async function b(): Promise<string> {
  "use step";
  return "b";
}

function entered(entrant: Entrant): PromiseLike<string> {
  if (entrant.kind === "step") return entrant.name === "a" ? a() : b();
  if (entrant.kind === "hook") return createHook<string>({ token: entrant.token });
  return sleep(entrant.ms).then(() => `slept ${entrant.ms}`);
}

/** Who came first. */
export async function first(entrants: readonly Entrant[]): Promise<string> {
  "use workflow";
  return Promise.race(entrants.map(entered));
}
