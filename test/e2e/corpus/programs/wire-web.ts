async function seen(url: URL, query: URLSearchParams, empty: URLSearchParams, headers: Headers) {
  "use step";
  query.append("more", "3");
  return {
    text: [url.host, query.get("a"), empty.size, headers.get("X-Trace"), [...headers].length],
    url: new URL("/there", url),
    query,
    headers,
  };
}

async function reply(request: Request): Promise<Response> {
  "use step";
  const body = `${request.method} ${new URL(request.url).pathname}: ${await request.text()}`;
  return new Response(body, {
    status: 201,
    statusText: "Made",
    headers: { "content-type": "text/plain" },
  });
}

export async function main(): Promise<unknown> {
  "use workflow";
  const back = await seen(
    new URL("https://shop.example:8443/cart?x=1#top"),
    new URLSearchParams("a=1&a=2"),
    new URLSearchParams(),
    new Headers([
      ["x-trace", "t1"],
      ["accept", "a"],
      ["accept", "b"],
    ]),
  );
  const response = await reply(
    new Request("https://shop.example/in", { method: "POST", body: "hé\0llo" }),
  );
  return [
    back.text,
    back.url.href,
    back.query.toString(),
    back.headers.get("accept"),
    [
      response.status,
      response.statusText,
      response.ok,
      response.headers.get("content-type"),
      await response.text(),
    ],
  ];
}
