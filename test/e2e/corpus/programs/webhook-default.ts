import { createWebhook, getWritable } from "workflow";

async function publish(token: string): Promise<void> {
  "use step";
  const writer = getWritable<string>().getWriter();
  await writer.write(token);
  await writer.close();
}

export async function main(): Promise<unknown> {
  "use workflow";
  const webhook = createWebhook();
  await publish(webhook.token);
  const request = await webhook;
  return [
    request.method,
    request.headers.get("x-from"),
    await request.json(),
    webhook.url.endsWith(webhook.token),
  ];
}
