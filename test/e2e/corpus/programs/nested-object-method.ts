export async function main(currency: string): Promise<string[]> {
  "use workflow";
  const tools = {
    async format(amount: number): Promise<string> {
      "use step";
      return `${amount} ${currency}`;
    },
    shout: async (text: string): Promise<string> => {
      "use step";
      return `${text.toUpperCase()} in ${currency}`;
    },
  };
  return [await tools.format(5), await tools.shout("paid")];
}
