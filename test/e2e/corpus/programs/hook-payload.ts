import { createHook } from "workflow";

interface Answer {
  approved: boolean;
  at: Date;
}

export async function main(token: string): Promise<unknown> {
  "use workflow";
  using hook = createHook<Answer>({ token });
  const { approved, at } = await hook;
  return [hook.token === token, approved, at instanceof Date];
}
