import { createWebhook, getWritable } from "workflow";
import type { RequestWithResponse } from "workflow";

async function publish(token: string): Promise<void> {
  "use step";
  const writer = getWritable<string>().getWriter();
  await writer.write(token);
  await writer.close();
}

async function answer(request: RequestWithResponse): Promise<string> {
  "use step";
  const { name } = (await request.json()) as { name: string };
  await request.respondWith(Response.json({ greeting: `hello ${name}` }, { status: 203 }));
  return name;
}

export async function main(): Promise<string> {
  "use workflow";
  const webhook = createWebhook({ respondWith: "manual" });
  await publish(webhook.token);
  return answer(await webhook);
}
