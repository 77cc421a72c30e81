const bytes = new Uint8Array([0, 1, 2, 253, 254, 255]);
const VIEWS = [
  bytes,
  bytes.subarray(2, 4),
  new Uint8ClampedArray([300, -1]),
  new Int8Array([-128, 127]),
  new Int16Array([-32768]),
  new Uint16Array([65535]),
  new Int32Array([-1, 2 ** 30]),
  new Uint32Array([2 ** 32 - 1]),
  new Float32Array([0.5]),
  new Float64Array([Math.PI, -0]),
  new BigInt64Array([-1n]),
  new BigUint64Array([2n ** 64n - 1n]),
];

function described(views: readonly ArrayBufferView[]): string[] {
  return views.map(
    (view) => `${view.constructor.name}:${view.byteLength}:${[...(view as Uint8Array)].join()}`,
  );
}

async function describe(views: ArrayBufferView[], buffer: ArrayBuffer): Promise<unknown> {
  "use step";
  return { texts: described(views), views, buffer, first: new Uint8Array(buffer)[0] };
}

export async function main(): Promise<unknown> {
  "use workflow";
  const got = (await describe(VIEWS, new Uint8Array([7, 8]).buffer)) as {
    texts: string[];
    views: ArrayBufferView[];
    buffer: ArrayBuffer;
    first: number;
  };
  const wanted = described(VIEWS);
  return [
    got.texts.join("|") === wanted.join("|"),
    described(got.views).join("|") === wanted.join("|"),
    [got.buffer instanceof ArrayBuffer, got.buffer.byteLength, got.first],
    // Only what the view shows crosses, not the buffer behind it.
    got.views[1]?.buffer.byteLength,
  ];
}
