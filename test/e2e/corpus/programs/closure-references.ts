type Tool = { name: string; execute: (input: string) => Promise<string> };

async function useAll(tools: Tool[], input: string): Promise<string[]> {
  "use step";
  return Promise.all(tools.map((tool) => tool.execute(input)));
}

export async function main(prefix: string): Promise<string[]> {
  "use workflow";
  const tools: Tool[] = ["a", "b"].map((name) => ({
    name,
    execute: async (input) => {
      "use step";
      return `${prefix}${name}(${input})`;
    },
  }));
  return useAll(tools, "x");
}
