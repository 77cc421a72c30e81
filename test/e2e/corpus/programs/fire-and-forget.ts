import { setAttributes } from "workflow";

async function audit(what: string): Promise<string> {
  "use step";
  await setAttributes({ audited: what });
  return what;
}

/** A step that nobody awaits is started all the same. */
export async function main(): Promise<string> {
  "use workflow";
  void audit("entry");
  return audit("exit");
}
