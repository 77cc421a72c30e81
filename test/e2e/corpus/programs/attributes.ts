import { setAttributes } from "workflow";

async function mark(key: string): Promise<void> {
  "use step";
  await setAttributes({ [key]: "from the step" });
}

export async function main(): Promise<unknown> {
  "use workflow";
  await setAttributes({ phase: "one", passing: "yes" });
  await mark("step");
  await setAttributes({ phase: "two", passing: undefined });
  const refused: string[] = [];
  for (const wrong of [{ $reserved: "x" }, { "": "x" }, { long: "x".repeat(257) }]) {
    try {
      await setAttributes(wrong);
    } catch (error) {
      refused.push((error as Error).name);
    }
  }
  return refused.length;
}
