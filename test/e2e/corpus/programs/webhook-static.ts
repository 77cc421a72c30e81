import { createWebhook, getWritable } from "workflow";

async function publish(token: string): Promise<void> {
  "use step";
  const writer = getWritable<string>().getWriter();
  await writer.write(token);
  await writer.close();
}

export async function main(): Promise<string> {
  "use workflow";
  const webhook = createWebhook({
    respondWith: new Response("thank you", { status: 201, headers: { "x-kind": "static" } }),
  });
  await publish(webhook.token);
  return (await webhook).text();
}
