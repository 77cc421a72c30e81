interface Node {
  name: string;
  next?: Node;
}

interface Basket {
  map: Map<unknown, unknown>;
  set: Set<unknown>;
  date: Date;
  invalid: Date;
  pattern: RegExp;
  sparse: unknown[];
  loop: Node;
  twice: object[];
}

async function checked(basket: Basket): Promise<Basket & { seen: unknown[] }> {
  "use step";
  const { map, set, date, invalid, pattern, sparse, loop, twice } = basket;
  const seen = [
    [...map.keys()].length,
    (map.get("inner") as Map<string, number>).get("deep"),
    set.has("b"),
    date.toISOString(),
    Number.isNaN(invalid.getTime()),
    pattern.test("FOOBAR"),
    1 in sparse,
    sparse.length,
    loop.next?.next === loop,
    twice[0] === twice[1],
  ];
  return { ...basket, seen };
}

export async function main(): Promise<unknown> {
  "use workflow";
  const loop: Node = { name: "a" };
  loop.next = { name: "b", next: loop };
  const shared = { n: 1 };
  const sparse: unknown[] = [0];
  sparse[2] = 2;
  const basket = await checked({
    map: new Map<unknown, unknown>([
      ["inner", new Map([["deep", 1]])],
      [{ key: "object" }, new Set([1])],
    ]),
    set: new Set(["a", "b"]),
    date: new Date(Date.UTC(2024, 1, 29)),
    invalid: new Date(Number.NaN),
    pattern: /foo(bar)/giu,
    sparse,
    loop,
    twice: [shared, shared],
  });
  return [
    basket.seen,
    basket.date.getTime(),
    basket.pattern.flags,
    Object.keys(basket.sparse),
    basket.loop.next?.next === basket.loop,
    basket.twice[0] === basket.twice[1],
  ];
}
