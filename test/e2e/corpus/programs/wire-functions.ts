export async function child(n: number): Promise<number> {
  "use workflow";
  return n + 1;
}

async function add(a: number, b: number): Promise<number> {
  "use step";
  return a + b;
}

async function unpack(box: Map<string, unknown>): Promise<unknown[]> {
  "use step";
  const operation = box.get("step") as (b: number) => Promise<number>;
  const workflow = box.get("workflow") as { workflowId: string };
  return [await operation(2), workflow.workflowId, box.get("workflow"), box.get("step")];
}

export async function main(): Promise<unknown> {
  "use workflow";
  const box = new Map<string, unknown>([
    ["step", add.bind(null, 40)],
    ["workflow", child],
  ]);
  const [sum, id, workflow, step] = await unpack(box);
  const again = step as (b: number) => Promise<number>;
  return [sum, id, (workflow as { workflowId: string }).workflowId === id, await again(3)];
}
