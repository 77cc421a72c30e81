class OutOfStock extends Error {
  readonly sku: string;
  constructor(sku: string, cause: unknown) {
    super(`out of stock: ${sku}`, { cause });
    this.name = "OutOfStock";
    this.sku = sku;
  }
}

export async function main(sku: string): Promise<never> {
  "use workflow";
  throw new OutOfStock(sku, new RangeError("0 left"));
}
