/** What the TSX of this project compiles to. */
type Child = string | Child[];
type Props = Readonly<Record<string, unknown>> | null;

export function h(
  type: string | ((props: never) => string),
  props: Props,
  ...children: Child[]
): string {
  if (typeof type === "function") return type({ ...props, children } as never);
  const attributes = Object.entries(props ?? {}).map(
    ([name, value]) => ` ${name}="${String(value)}"`,
  );
  return `<${type}${attributes.join("")}>${(children.flat(9) as string[]).join("")}</${type}>`;
}

export const render = (element: string): string => `<!doctype mail>${element}`;

declare global {
  namespace JSX {
    type Element = string;
    interface IntrinsicElements {
      [name: string]: Readonly<Record<string, unknown>>;
    }
  }
}
