export const prices = {
  async net(cents: number): Promise<number> {
    "use step";
    return cents;
  },
  gross: async (cents: number): Promise<number> => {
    "use step";
    return Math.round(cents * 1.2);
  },
};

export async function main(): Promise<number[]> {
  "use workflow";
  return [await prices.net(100), await prices.gross(100)];
}
