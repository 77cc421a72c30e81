export async function main(names: string[]): Promise<string[]> {
  "use workflow";
  const greeting = "hello";
  const options = { punctuation: "!" };
  const greet = async (name: string): Promise<string> => {
    "use step";
    return `${greeting} ${name}${options.punctuation}`;
  };
  return Promise.all(names.map(greet));
}
