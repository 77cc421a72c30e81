/**
 * Several texts as one run of bytes that no other several texts give: each with its length before
 * it. What seals and wrappings are bound to is written this way.
 */

export function tuple(...parts: readonly string[]): Buffer {
  const encoded = parts.map((part) => Buffer.from(part, "utf8"));
  return Buffer.concat([
    length(encoded.length),
    ...encoded.flatMap((part) => [length(part.byteLength), part]),
  ]);
}

function length(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
