import { start } from "workflow/api";
import type { Run } from "workflow/api";

export async function leaf(name: string): Promise<string> {
  "use workflow";
  return `leaf ${name}`;
}

export async function branch(names: string[]): Promise<Run<string>[]> {
  "use workflow";
  return Promise.all(names.map((name) => start(leaf, [name], { attributes: { name } })));
}

export async function main(): Promise<unknown> {
  "use workflow";
  const run = await start(branch, [["a", "b"]]);
  const leaves = await run.returnValue;
  return Promise.all(leaves.map((leaf) => leaf.returnValue));
}
