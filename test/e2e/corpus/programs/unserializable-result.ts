async function answer(): Promise<unknown> {
  "use step";
  return { callback: () => 1 };
}

async function fine(): Promise<string> {
  "use step";
  return "fine";
}

export async function main(): Promise<unknown> {
  "use workflow";
  try {
    return await answer();
  } catch (error) {
    return [(error as Error).message.includes("step return value"), await fine()];
  }
}
