/**
 * Names and where they are bound: which variables of the functions around a nested step its body
 * reads, and so what has to travel with each call of it.
 *
 * Owns scoping as JavaScript has it (functions, blocks, hoisted `var`, catch, classes). No I/O.
 */
import {
  childrenOf,
  functionParts,
  isFunction,
  isNode,
  statementsOf,
  type Node,
} from "./syntax.ts";

/** The names that a scope binds. `isModule` marks the outermost. */
export interface Scope {
  readonly isModule: boolean;
  readonly names: ReadonlySet<string>;
}

/** The scope that a node opens for what is below it, or null if it opens none. */
export function scopeOf(node: Node): Scope | null {
  if (node.type === "Module" || node.type === "Script") {
    const body = node["body"] as Node[];
    return { isModule: true, names: new Set([...blockNames(body), ...varNames(body)]) };
  }
  if (isFunction(node)) return { isModule: false, names: functionNames(node) };
  if (node.type === "BlockStatement") return inner(blockNames(statementsOf(node)));
  if (node.type === "CatchClause") return inner(isNode(node["param"]) ? bound(node["param"]) : []);
  if (node.type === "ClassExpression") return inner(ownName(node));
  if (node.type === "SwitchStatement") {
    const cases = node["cases"] as { consequent: Node[] }[];
    return inner(blockNames(cases.flatMap((one) => one.consequent)));
  }
  const head = node["init"] ?? node["left"];
  if (node.type.startsWith("For") && isNode(head)) return inner(blockNames([head]));
  return null;
}

function inner(names: Iterable<string>): Scope {
  return { isModule: false, names: new Set(names) };
}

function functionNames(node: Node): Set<string> {
  const { params, body } = functionParts(node);
  const names = new Set<string>(node.type === "FunctionExpression" ? ownName(node) : []);
  for (const pattern of nodesIn(params)) for (const name of bound(pattern)) names.add(name);
  if (body?.type === "BlockStatement") {
    for (const name of varNames(statementsOf(body))) names.add(name);
  }
  return names;
}

function ownName(node: Node): string[] {
  const identifier = node["identifier"];
  return isNode(identifier) ? [String(identifier["value"])] : [];
}

/** `let`, `const`, functions, classes and imports directly in a list of statements. */
function blockNames(statements: readonly Node[]): string[] {
  return statements.flatMap((statement): string[] => {
    switch (statement.type) {
      case "VariableDeclaration":
        return declared(statement);
      case "FunctionDeclaration":
      case "ClassDeclaration":
      case "TsEnumDeclaration":
        return [...ownName(statement), ...ownIdValue(statement)];
      case "ExportDeclaration":
      case "ExportDefaultDeclaration":
        return blockNames([(statement["declaration"] ?? statement["decl"]) as Node]);
      case "FunctionExpression":
      case "ClassExpression":
        // Only as the declaration of `export default`.
        return ownName(statement);
      case "ImportDeclaration":
        return (statement["specifiers"] as Node[]).flatMap((one) =>
          isNode(one["local"]) ? bound(one["local"]) : [],
        );
      default:
        return [];
    }
  });
}

function ownIdValue(statement: Node): string[] {
  const id = statement["id"];
  return isNode(id) ? [String(id["value"])] : [];
}

/** `var`s below, down to the next function. */
function varNames(nodes: readonly Node[]): string[] {
  return nodes.flatMap((node) => {
    if (isFunction(node)) return [];
    const here =
      node.type === "VariableDeclaration" && node["kind"] === "var" ? declared(node) : [];
    return [...here, ...varNames(childrenOf(node))];
  });
}

function declared(declaration: Node): string[] {
  return (declaration["declarations"] as Node[]).flatMap((one) => bound(one["id"] as Node));
}

/** The names that a pattern binds. */
export function bound(pattern: Node): string[] {
  switch (pattern.type) {
    case "Identifier":
      return [String(pattern["value"])];
    case "Parameter":
      return bound(pattern["pat"] as Node);
    case "TsParameterProperty":
      return bound(pattern["param"] as Node);
    case "AssignmentPattern":
      return bound(pattern["left"] as Node);
    case "RestElement":
      return bound(pattern["argument"] as Node);
    case "ArrayPattern":
      return nodesIn(pattern["elements"]).flatMap(bound);
    case "ObjectPattern":
      return nodesIn(pattern["properties"]).flatMap(bound);
    case "KeyValuePatternProperty":
      return bound(pattern["value"] as Node);
    case "AssignmentPatternProperty":
      return bound(pattern["key"] as Node);
    default:
      return [];
  }
}

function nodesIn(value: unknown): Node[] {
  if (Array.isArray(value)) return value.filter(isNode);
  return isNode(value) ? [value] : [];
}

/** Names that a node reads or writes and does not bind itself, in the order first met. */
export function freeNames(root: Node): string[] {
  const found = new Set<string>();
  const visit = (node: Node, scopes: readonly Scope[]): void => {
    if (node.type === "Identifier") {
      const name = String(node["value"]);
      if (!scopes.some((scope) => scope.names.has(name))) found.add(name);
      return;
    }
    const scope = scopeOf(node);
    const below = scope === null ? scopes : [...scopes, scope];
    for (const child of valueChildren(node)) visit(child, below);
  };
  visit(root, []);
  return [...found];
}

/** Children without the names that are only labels: property keys, members, labels. */
function valueChildren(node: Node): Node[] {
  switch (node.type) {
    case "MemberExpression":
    case "SuperPropExpression": {
      const property = node["property"] as Node;
      return [node["object"] ?? node["obj"], property].filter(
        (child): child is Node => isNode(child) && child !== nameOnly(property),
      );
    }
    case "KeyValueProperty":
    case "KeyValuePatternProperty":
    case "MethodProperty":
    case "ClassMethod":
    case "ClassProperty":
    case "GetterProperty":
    case "SetterProperty": {
      const key = nameOnly(node["key"] as Node);
      return childrenOf(node).filter((child) => child !== key);
    }
    case "LabeledStatement":
    case "BreakStatement":
    case "ContinueStatement":
      return childrenOf(node).filter((child) => child !== node["label"]);
    default:
      return childrenOf(node);
  }
}

/** The node, if it is a plain name and not computed. */
function nameOnly(node: Node): Node | null {
  return node.type === "Identifier" ? node : null;
}

/** A use of something that only exists where the function stands, if there is one. */
export function boundToPlace(root: Node): { node: Node; word: string } | null {
  const ownsThis = root.type !== "ArrowFunctionExpression";
  const visit = (node: Node, isOwn: boolean): { node: Node; word: string } | null => {
    if (node.type === "Super") return { node, word: "super" };
    if (node.type === "PrivateName") return { node, word: "a private member" };
    if (!isOwn && node.type === "Identifier" && node["value"] === "arguments") {
      return { node, word: "the `arguments` of the function around it" };
    }
    const below = isOwn || (isFunction(node) && node.type !== "ArrowFunctionExpression");
    if (node.type === "ClassDeclaration" || node.type === "ClassExpression") return null;
    for (const child of valueChildren(node)) {
      const found = visit(child, below);
      if (found !== null) return found;
    }
    return null;
  };
  return visit(root, ownsThis);
}

/** Whether an arrow function reads the `this` of the function around it. */
export function readsLexicalThis(root: Node): boolean {
  if (root.type === "ThisExpression") return true;
  return childrenOf(root).some(
    (child) =>
      !(isFunction(child) && child.type !== "ArrowFunctionExpression") &&
      child.type !== "ClassDeclaration" &&
      child.type !== "ClassExpression" &&
      readsLexicalThis(child),
  );
}
