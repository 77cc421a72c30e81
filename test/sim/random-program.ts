/**
 * Random workflow programs, and what each must come to.
 *
 * Two kinds are made. In a *timing-independent* program nothing but values decides what is asked
 * next: no race, no `any`, no reading of the clock, nothing left loose, and what may throw stands
 * only where no sibling is cut off by it. Such a program must come to the same creations and the
 * same result under every schedule, and `expectationOf` says which. A *timing-dependent* one may
 * hold anything; it is held against its own log instead.
 */
import type { Draws } from "./draws.ts";
import type { Program } from "./workflows/programs.ts";
import type { Plan } from "./workflows/steps.ts";

const LEAVES_MAX = 14;
const DAY_MS = 86_400_000;

export interface HookNeed {
  readonly name: string;
  readonly times: number;
}

export interface Expectation {
  /** Null: the program throws. */
  readonly result: { readonly value: unknown } | null;
  /** `step label`, `wait`, `hook` and `attr`, sorted. */
  readonly creations: readonly string[];
}

export function randomProgram(draws: Draws, isIndependent: boolean): Program {
  return new Generator(draws, isIndependent).program();
}

class Generator {
  readonly #draws: Draws;
  readonly #isIndependent: boolean;
  #leaves = 0;
  #names = 0;

  constructor(draws: Draws, isIndependent: boolean) {
    this.#draws = draws;
    this.#isIndependent = isIndependent;
  }

  program(): Program {
    const of: Program[] = [];
    const count = this.#draws.between(3, 5);
    for (let i = 0; i < count; i++) of.push(this.#node(2));
    // Something follows everything else, so that what the tree came to is acted upon.
    of.push(this.#step());
    return { do: "sequence", of };
  }

  #node(depth: number): Program {
    if (depth === 0 || this.#leaves >= LEAVES_MAX) return this.#leaf();
    const roll = this.#draws.next();
    if (roll < 0.14) return this.#leaf();
    if (roll < 0.2) return this.#unread(depth);
    if (roll < 0.35) return { do: "sequence", of: this.#nodes(depth) };
    if (roll < 0.55) return { do: "all", of: this.#nodes(depth) };
    if (roll < 0.65) return { do: "settled", of: [...this.#nodes(depth), this.#thrower()] };
    if (roll < 0.75) return this.#attempt(depth);
    if (this.#isIndependent) return { do: "all", of: this.#nodes(depth) };
    if (roll < 0.9) return { do: "race", of: this.#nodes(depth) };
    if (roll < 0.94) return { do: "any", of: [this.#thrower(), ...this.#nodes(depth)] };
    if (roll < 0.97) return { do: "loose", body: this.#node(depth - 1) };
    return { do: "clock", even: this.#node(depth - 1), odd: this.#node(depth - 1) };
  }

  #nodes(depth: number): Program[] {
    const width = this.#draws.between(2, 3);
    return Array.from({ length: width }, () => this.#node(depth - 1));
  }

  #unread(depth: number): Program {
    const times = this.#draws.between(1, 2);
    const body: Program = { do: "sequence", of: this.#nodes(depth) };
    return { do: "unread", name: this.#name(), times, body };
  }

  #attempt(depth: number): Program {
    const body: Program = { do: "sequence", of: [this.#node(depth - 1), this.#thrower()] };
    return { do: "attempt", body, otherwise: this.#leaf() };
  }

  #thrower(): Program {
    if (this.#draws.chance(0.3)) return { do: "throw", message: `thrown ${this.#name()}` };
    const isFatal = this.#draws.chance(0.5);
    const plan: Plan = { ms: this.#ms(), failures: 99, ...(isFatal ? { how: "fatal" } : {}) };
    return { do: isFatal ? "step" : "brittle", label: this.#name(), plan };
  }

  #leaf(): Program {
    this.#leaves++;
    const roll = this.#draws.next();
    if (roll < 0.55) return this.#step();
    if (roll < 0.75) return { do: "sleep", ms: this.#sleepMs() };
    if (roll < 0.87) return { do: "hook", name: this.#name(), times: this.#draws.between(1, 3) };
    if (roll < 0.95) return { do: "hops", count: this.#draws.between(0, 16) };
    return { do: "attribute", key: this.#name(), value: "set" };
  }

  #step(): Program {
    const roll = this.#draws.next();
    const ms = this.#ms();
    if (roll < 0.7) return { do: "step", label: this.#name(), plan: { ms } };
    const failures = this.#draws.between(1, 2);
    if (roll < 0.9) return { do: "step", label: this.#name(), plan: { ms, failures } };
    const retryMs = this.#draws.pick([0, 1, 5_000, 2 * DAY_MS]);
    return {
      do: "step",
      label: this.#name(),
      plan: { ms, failures, how: "retryable", retryMs },
    };
  }

  #ms(): number {
    return this.#draws.pick([0, 1, 10, 100, 100, 1_000, 20_000]);
  }

  #sleepMs(): number {
    return this.#draws.pick([0, 1, 10, 100, 100, 1_000, 3_000, 60_000, 2 * DAY_MS]);
  }

  #name(): string {
    return `n${this.#names++}`;
  }
}

/** The hooks that a program may come to await. */
export function hooksOf(program: Program): readonly HookNeed[] {
  switch (program.do) {
    case "hook":
      return [{ name: program.name, times: program.times }];
    case "unread":
      return [{ name: program.name, times: program.times }, ...hooksOf(program.body)];
    case "attempt":
      return [...hooksOf(program.body), ...hooksOf(program.otherwise)];
    case "clock":
      return [...hooksOf(program.even), ...hooksOf(program.odd)];
    case "loose":
      return hooksOf(program.body);
    case "sequence":
    case "all":
    case "settled":
    case "race":
    case "any":
      return program.of.flatMap((each) => hooksOf(each));
    default:
      return [];
  }
}

/** What a timing-independent program must come to. */
export function expectationOf(program: Program): Expectation {
  const creations: string[] = [];
  const result = evaluated(program, creations);
  return { result, creations: creations.sort() };
}

function evaluated(program: Program, creations: string[]): Expectation["result"] {
  switch (program.do) {
    case "step":
    case "brittle": {
      creations.push(`step ${program.label}`);
      const isLost = (program.plan.failures ?? 0) > (program.do === "brittle" ? 2 : 30);
      return isLost ? null : { value: `did ${program.label}` };
    }
    case "sleep":
      creations.push("wait");
      return { value: "slept" };
    case "hook":
      creations.push("hook");
      return { value: program.times };
    case "unread": {
      creations.push("hook");
      const body = evaluated(program.body, creations);
      return body === null ? null : { value: [body.value, program.times] };
    }
    case "attribute":
      creations.push("attr");
      return { value: undefined };
    case "hops":
      return { value: undefined };
    case "throw":
      return null;
    case "attempt": {
      const body = evaluated(program.body, creations);
      if (body !== null) return body;
      const otherwise = evaluated(program.otherwise, creations);
      return otherwise === null ? null : { value: ["caught", otherwise.value] };
    }
    case "sequence": {
      const values: unknown[] = [];
      for (const each of program.of) {
        const result = evaluated(each, creations);
        if (result === null) return null;
        values.push(result.value);
      }
      return { value: values };
    }
    case "all": {
      const results = program.of.map((each) => evaluated(each, creations));
      if (results.includes(null)) return null;
      return { value: results.map((each) => each?.value) };
    }
    case "settled": {
      const results = program.of.map((each) => evaluated(each, creations));
      return { value: results.map((each) => (each === null ? "rejected" : each.value)) };
    }
    default:
      throw new Error(`a program with ${program.do} depends on timing`);
  }
}
