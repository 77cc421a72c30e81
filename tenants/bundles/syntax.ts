/**
 * Source text as a syntax tree: parsing, printing, positions and directives.
 *
 * Owns the use of swc's parser; knows nothing of what a directive means. Its tree is plain data, so
 * that the lifting of nested steps can rearrange it and keep every node's place in the source.
 */
import { parse, print, type Module } from "@swc/core";
import { buildRefused, problemsOfSwc, type Place } from "./problems.ts";

/** A node of swc's tree. Its fields depend on its type; the walkers look at what they know. */
export interface Node {
  type: string;
  span?: { start: number; end: number };
  [field: string]: unknown;
}

export interface ParsedFile {
  readonly file: string;
  readonly module: Node & { body: Node[] };
  placeOf(node: Node): Place;
}

export function parserOptionsOf(file: string) {
  return {
    syntax: "typescript" as const,
    // JavaScript may hold JSX in any file; in TypeScript only where the name says so.
    tsx: !/\.[mc]?ts$/.test(file),
    decorators: true,
  };
}

/** Parses one file. Throws `BUNDLE_REFUSED` where it cannot. */
export async function parseFile(file: string, source: string): Promise<ParsedFile> {
  // Spans count bytes over everything this process has parsed. An empty statement in front tells
  // where this file begins, whatever comments stand at its top.
  const text = `;${source}`;
  const tree = (await parse(text, { ...parserOptionsOf(file), target: "es2022" }).catch(
    (error: unknown) => {
      const shifted = problemsOfSwc(error, file).map((problem) =>
        problem.line === 1 ? { ...problem, column: Math.max(1, problem.column - 1) } : problem,
      );
      throw buildRefused(shifted);
    },
  )) as unknown as Node & { body: Node[] };
  const base = tree.body.shift()?.span?.start ?? 0;
  const bytes = Buffer.from(text, "utf8");
  return {
    file,
    module: tree,
    placeOf(node) {
      const before = bytes.subarray(0, (node.span?.start ?? base) - base).toString("utf8");
      const line = before.split("\n").length;
      const column = before.length - (before.lastIndexOf("\n") + 1) + (line === 1 ? 0 : 1);
      return { file, line, column };
    },
  };
}

/** The tree as text again, with a map back to the text it was parsed from. */
export async function printFile(
  parsed: ParsedFile,
  source: string,
): Promise<{ code: string; map: string }> {
  const printed = await print(parsed.module as unknown as Module, {
    sourceMaps: true,
    jsc: { target: "es2022" },
  });
  const map = JSON.parse(printed.map ?? "{}") as Record<string, unknown>;
  const name = parsed.file.slice(parsed.file.lastIndexOf("/") + 1);
  return {
    code: printed.code,
    map: JSON.stringify({ ...map, sources: [name], sourcesContent: [source] }),
  };
}

export function isNode(value: unknown): value is Node {
  return typeof value === "object" && value !== null && typeof (value as Node).type === "string";
}

/** The nodes directly below one, in source order. Type annotations are left out. */
export function childrenOf(node: Node): Node[] {
  const found: Node[] = [];
  for (const [field, value] of Object.entries(node)) {
    if (TYPE_FIELDS.has(field)) continue;
    collect(value, found);
  }
  return found;
}

/** Fields that hold no code. */
export const TYPE_FIELDS: ReadonlySet<string> = new Set([
  "span",
  "typeAnnotation",
  "returnType",
  "typeParameters",
  "typeParams",
  "typeArguments",
  "superTypeParams",
  "implements",
]);

function collect(value: unknown, into: Node[]): void {
  if (Array.isArray(value)) for (const item of value) collect(item, into);
  else if (isNode(value)) {
    if (!isTypeOnly(value)) into.push(value);
  } else if (typeof value === "object" && value !== null) {
    // swc wraps some nodes ({ spread, expression }, { params, body } …) without a type.
    for (const [field, inner] of Object.entries(value)) {
      if (!TYPE_FIELDS.has(field)) collect(inner, into);
    }
  }
}

const TS_WITH_VALUES = new Set([
  "TsAsExpression",
  "TsNonNullExpression",
  "TsSatisfiesExpression",
  "TsConstAssertion",
  "TsTypeAssertion",
  "TsInstantiation",
  "TsParameterProperty",
  "TsEnumDeclaration",
  "TsEnumMember",
  "TsModuleDeclaration",
  "TsModuleBlock",
]);

function isTypeOnly(node: Node): boolean {
  return node.type.startsWith("Ts") && !TS_WITH_VALUES.has(node.type);
}

const FUNCTIONS = new Set([
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
  "MethodProperty",
  "ClassMethod",
  "PrivateMethod",
  "Constructor",
  "GetterProperty",
  "SetterProperty",
]);

export function isFunction(node: Node): boolean {
  return FUNCTIONS.has(node.type);
}

/** The parts of a function; class methods keep theirs in a nested record. */
export function functionParts(node: Node): { params: unknown; body: Node | null; record: Node } {
  const record = (node["function"] as Node | undefined) ?? node;
  const body = record["body"];
  return { params: record["params"] ?? record["param"], body: isNode(body) ? body : null, record };
}

/** The statements of a block. */
export function statementsOf(block: Node): Node[] {
  return (block["stmts"] ?? []) as Node[];
}

/** The directive at the head of a function's body, if it is one of the SDK's. */
export function directiveOf(node: Node): "use step" | "use workflow" | null {
  const { body } = functionParts(node);
  if (body === null || body.type !== "BlockStatement") return null;
  for (const statement of statementsOf(body)) {
    const text = directiveText(statement);
    if (text === null) return null;
    if (text === "use step" || text === "use workflow") return text;
  }
  return null;
}

/** The text of a statement that is nothing but a string, or null. */
export function directiveText(statement: Node): string | null {
  const expression = statement["expression"];
  if (statement.type !== "ExpressionStatement" || !isNode(expression)) return null;
  return expression.type === "StringLiteral" ? String(expression["value"]) : null;
}
