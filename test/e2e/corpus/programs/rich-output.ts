interface Input {
  when: Date;
  tags: Set<string>;
  rates: Map<string, bigint>;
  bytes: Uint8Array;
}

async function stamped(input: Input): Promise<Input & { pattern: RegExp; missing: undefined }> {
  "use step";
  return { ...input, tags: new Set([...input.tags, "seen"]), pattern: /x/g, missing: undefined };
}

export async function main(input: Input): Promise<unknown> {
  "use workflow";
  return stamped(input);
}
