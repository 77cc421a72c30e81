/** Runs a program that it is given: how random programs need no bundle of their own. */
import { createHook, setAttributes, sleep } from "workflow";
import { hop } from "./input.ts";
import { act, brittle, once } from "./steps.ts";
import type { Plan } from "./steps.ts";

export type Program =
  | { readonly do: "step"; readonly label: string; readonly plan: Plan }
  | { readonly do: "brittle" | "once"; readonly label: string; readonly plan: Plan }
  | { readonly do: "sleep"; readonly ms: number }
  | { readonly do: "hook"; readonly name: string; readonly times: number }
  /** A hook that nobody awaits until the body has ended. */
  | {
      readonly do: "unread";
      readonly name: string;
      readonly times: number;
      readonly body: Program;
    }
  | { readonly do: "hops"; readonly count: number }
  | { readonly do: "attribute"; readonly key: string; readonly value: string }
  | { readonly do: "throw"; readonly message: string }
  /** Reads the clock and takes a branch by it. */
  | { readonly do: "clock"; readonly even: Program; readonly odd: Program }
  | { readonly do: "sequence"; readonly of: readonly Program[] }
  | { readonly do: "all" | "settled" | "race" | "any"; readonly of: readonly Program[] }
  | { readonly do: "attempt"; readonly body: Program; readonly otherwise: Program }
  /** Started and never awaited. */
  | { readonly do: "loose"; readonly body: Program };

export interface ProgramInput {
  readonly canary: string;
  readonly token: string;
  readonly program: Program;
}

export async function runProgram(input: ProgramInput) {
  "use workflow";
  return { canary: input.canary, result: await run(input, input.program) };
}

async function run(input: ProgramInput, program: Program): Promise<unknown> {
  switch (program.do) {
    case "step":
      return act(input.canary, program.label, program.plan);
    case "brittle":
      return brittle(input.canary, program.label, program.plan);
    case "once":
      return once(input.canary, program.label, program.plan);
    case "sleep":
      return sleep(program.ms).then(() => "slept");
    case "hook":
      return payloads(hookOf(input, program.name), program.times);
    case "unread": {
      const hook = hookOf(input, program.name);
      return [await run(input, program.body), await payloads(hook, program.times)];
    }
    case "hops":
      return hop(program.count);
    case "attribute":
      return setAttributes({ [program.key]: program.value });
    case "throw":
      throw new Error(program.message);
    case "clock":
      return run(input, Date.now() % 2 === 0 ? program.even : program.odd);
    case "loose":
      run(input, program.body).catch(() => "nobody looks");
      return "loose";
    case "sequence":
      return inSequence(input, program.of);
    case "attempt":
      try {
        return await run(input, program.body);
      } catch {
        return ["caught", await run(input, program.otherwise)];
      }
    default:
      return together(input, program);
  }
}

async function inSequence(input: ProgramInput, programs: readonly Program[]) {
  const results: unknown[] = [];
  for (const each of programs) results.push(await run(input, each));
  return results;
}

function hookOf(input: ProgramInput, name: string) {
  return createHook<string>({ token: `${input.token}/${name}` });
}

async function payloads(hook: AsyncIterable<string>, times: number) {
  const got: string[] = [];
  for await (const payload of hook) {
    if (got.push(payload) >= times) break;
  }
  return got.length;
}

async function together(
  input: ProgramInput,
  program: Extract<Program, { of: readonly Program[]; do: "all" | "settled" | "race" | "any" }>,
): Promise<unknown> {
  const branches = program.of.map((each) => run(input, each));
  switch (program.do) {
    case "all":
      return Promise.all(branches);
    case "race":
      return Promise.race(branches);
    case "any":
      return Promise.any(branches);
    default: {
      const settled = await Promise.allSettled(branches);
      return settled.map((each) => (each.status === "fulfilled" ? each.value : "rejected"));
    }
  }
}
