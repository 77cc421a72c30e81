/**
 * Lifting: steps that are written inside other functions, made into steps that stand alone.
 *
 * The SDK's transformer handles steps at the top level of a module well. Of nested ones it loses
 * declarations (calls keep the old name), variables that object members read, function expressions,
 * and it gives two steps one id, or one step two. So nested steps never reach it: each is lifted
 * here, on the tree, before the transformer runs. Unnamed default exports go the same way.
 *
 * On the workflow side the place of the step becomes its proxy, with a thunk that returns the
 * variables it reads. On the step side the body is registered under the same id, reads those
 * variables from the step's context, and the place keeps a plain function, so that calling it
 * outside of a workflow works.
 *
 * T1  A nested step has the same id on both sides, and no two steps of a file share one.
 * T2  What cannot be lifted without changing its meaning is refused with its place.
 */
import { parseSync } from "@swc/core";
import { boundToPlace, freeNames, readsLexicalThis, scopeOf, type Scope } from "./scopes.ts";
import {
  TYPE_FIELDS,
  directiveOf,
  directiveText,
  functionParts,
  isFunction,
  isNode,
  statementsOf,
  type Node,
  type ParsedFile,
} from "./syntax.ts";
import type { Problem } from "./problems.ts";

export type BundleSide = "workflow" | "step";

export interface Lifted {
  /** Name within the file → step id. */
  readonly steps: ReadonlyMap<string, string>;
  readonly problems: readonly Problem[];
}

interface Context {
  readonly scopes: readonly Scope[];
  /** Names of the functions around, outermost first. */
  readonly path: readonly string[];
  /** What the value here is called by what holds it: a variable, then keys. */
  readonly hint: readonly string[];
}

/** Rearranges the tree of one file for one side. `idBase` is the middle part of its ids. */
export function liftNestedSteps(parsed: ParsedFile, idBase: string, side: BundleSide): Lifted {
  const lifting = new Lifting(parsed, idBase, side);
  lifting.walkFields(parsed.module, { scopes: [moduleScope(parsed)], path: [], hint: [] });
  parsed.module.body.push(...lifting.registrations);
  return { steps: lifting.steps, problems: lifting.problems };
}

function moduleScope(parsed: ParsedFile): Scope {
  return scopeOf(parsed.module) ?? { isModule: true, names: new Set() };
}

class Lifting {
  readonly steps = new Map<string, string>();
  readonly problems: Problem[] = [];
  readonly registrations: Node[] = [];
  readonly #parsed: ParsedFile;
  readonly #idBase: string;
  readonly #side: BundleSide;

  constructor(parsed: ParsedFile, idBase: string, side: BundleSide) {
    this.#parsed = parsed;
    this.#idBase = idBase;
    this.#side = side;
  }

  walkFields(holder: Record<string, unknown>, context: Context): void {
    for (const [field, value] of Object.entries(holder)) {
      if (TYPE_FIELDS.has(field)) continue;
      if (Array.isArray(value)) holder[field] = this.#list(value, context);
      else if (isNode(value))
        holder[field] = this.#node(value, this.#named(holder, field, context));
      else if (typeof value === "object" && value !== null) {
        this.walkFields(value as Record<string, unknown>, context);
      }
    }
  }

  #list(items: unknown[], context: Context): unknown[] {
    const kept: unknown[] = [];
    const hoisted: Node[] = [];
    for (const item of items) {
      if (!isNode(item)) {
        if (typeof item === "object" && item !== null) {
          this.walkFields(item as Record<string, unknown>, context);
        }
        kept.push(item);
      } else if (item.type === "FunctionDeclaration" && this.#isNestedStep(item, context)) {
        // Like the declaration that it replaces, the proxy is there before the first statement.
        hoisted.push(this.#declaration(item, context));
      } else kept.push(this.#node(item, context));
    }
    const directives = kept.findIndex((item) => !isNode(item) || directiveText(item) === null);
    const head = directives === -1 ? kept.length : directives;
    return [...kept.slice(0, head), ...hoisted, ...kept.slice(head)];
  }

  #node(node: Node, context: Context): Node {
    if (this.#isNestedStep(node, context)) return this.#replaced(node, context);
    const fallback = node["decl"];
    if (isNode(fallback) && this.#isUnnamedDefault(node, fallback)) {
      const expression = this.#lift(fallback, { ...context, hint: ["default"] });
      return { type: "ExportDefaultExpression", span: node.span, expression } as Node;
    }
    const scope = scopeOf(node);
    const below = scope === null ? context : { ...context, scopes: [...context.scopes, scope] };
    if (!isFunction(node) && node.type !== "ClassProperty") {
      this.walkFields(node, keepsHint(node) ? below : { ...below, hint: [] });
      return node;
    }
    if (context.path.length > 0 && directiveOf(node) === "use workflow") {
      this.#refuse(node, 'a "use workflow" function stands at the top level of its file');
    }
    const name = keyOf(node) ?? identifierOf(node) ?? (context.hint.join("/") || "fn");
    this.walkFields(node, { ...below, path: [...context.path, name], hint: [] });
    return node;
  }

  /** The context of a field, with the name that its holder gives to it. */
  #named(holder: Record<string, unknown>, field: string, context: Context): Context {
    if (holder["type"] === "VariableDeclarator" && field === "init") {
      const name = identifierOf({ type: "", identifier: holder["id"] });
      return { ...context, hint: name === null ? [] : [name] };
    }
    if (holder["type"] === "KeyValueProperty" && field === "value") {
      const key = keyOf(holder as Node);
      return { ...context, hint: key === null ? [] : [...context.hint, key] };
    }
    if (holder["type"] === "ExportDefaultExpression") return { ...context, hint: ["default"] };
    return context;
  }

  /** A step that the transformer must not see: inside a function, or an unnamed default export. */
  #isNestedStep(node: Node, context: Context): boolean {
    if (!LIFTABLE.has(node.type) || directiveOf(node) !== "use step") return false;
    if (context.path.length > 0) return true;
    return context.hint[0] === "default" && node.type === "ArrowFunctionExpression";
  }

  #isUnnamedDefault(holder: Node, declared: Node): boolean {
    return (
      holder.type === "ExportDefaultDeclaration" &&
      declared.type === "FunctionExpression" &&
      identifierOf(declared) === null &&
      directiveOf(declared) === "use step"
    );
  }

  /** What stands at the step's place afterwards, where that is an expression or a property. */
  #replaced(node: Node, context: Context): Node {
    if (node.type !== "MethodProperty") return this.#lift(node, context);
    const key = keyOf(node);
    const hint = key === null ? [] : [...context.hint, key];
    const value = this.#lift(asExpression(node), { ...context, hint });
    return { type: "KeyValueProperty", span: node.span, key: node["key"], value } as Node;
  }

  #declaration(node: Node, context: Context): Node {
    const hint = [identifierOf(node) ?? "fn"];
    const init = this.#lift(asExpression(node), { ...context, hint });
    const declarator = {
      type: "VariableDeclarator",
      span: node.span,
      id: node["identifier"],
      init,
      definite: false,
    };
    return {
      type: "VariableDeclaration",
      span: node.span,
      ctxt: 0,
      kind: "const",
      declare: false,
      declarations: [declarator],
    } as unknown as Node;
  }

  /** Lifts a function expression or arrow; returns what takes its place. */
  #lift(step: Node, context: Context): Node {
    const place = boundToPlace(step);
    if (place !== null) {
      this.#refuse(place.node, `a nested step cannot use ${place.word}; pass it as an argument`);
    }
    const name = context.hint.join("/") || identifierOf(step) || "_anonymousStep";
    const id = this.#register([...context.path, name].join("/"));
    const captured = freeNames(step).filter((free) => {
      const binding = context.scopes.findLast((scope) => scope.names.has(free));
      return binding !== undefined && !binding.isModule;
    });
    const isLexical = step.type === "ArrowFunctionExpression" && readsLexicalThis(step);
    removeDirective(step);
    if (this.#side === "workflow") return proxyOf(step, id, captured, isLexical);
    // The body is a function like any other, and may hold steps in its turn.
    const scope = scopeOf(step);
    const scopes = scope === null ? context.scopes : [...context.scopes, scope];
    this.walkFields(step, { scopes, path: [...context.path, name], hint: [] });
    this.registrations.push(registrationOf(step, id, captured));
    return step;
  }

  #register(name: string): string {
    let unique = name;
    for (let n = 2; this.steps.has(unique); n++) unique = `${name}$${n}`;
    const id = `step//${this.#idBase}//${unique}`;
    this.steps.set(unique, id);
    return id;
  }

  #refuse(node: Node, message: string): void {
    this.problems.push({ ...this.#parsed.placeOf(node), message });
  }
}

const LIFTABLE = new Set([
  "FunctionDeclaration",
  "FunctionExpression",
  "ArrowFunctionExpression",
  "MethodProperty",
]);

/** Nodes between a name and the function that it names. */
function keepsHint(node: Node): boolean {
  return [
    "ObjectExpression",
    "KeyValueProperty",
    "ParenthesisExpression",
    "TsAsExpression",
    "TsSatisfiesExpression",
    "TsConstAssertion",
  ].includes(node.type);
}

function identifierOf(node: Node): string | null {
  const identifier = node["identifier"];
  return isNode(identifier) && identifier.type === "Identifier"
    ? String(identifier["value"])
    : null;
}

function keyOf(node: Node): string | null {
  const key = node["key"];
  return isNode(key) && (key.type === "Identifier" || key.type === "StringLiteral")
    ? String(key["value"])
    : null;
}

/** A declaration or method as a function expression; its own name is bound inside. */
function asExpression(node: Node): Node {
  return {
    type: "FunctionExpression",
    span: node.span,
    ctxt: 0,
    identifier: node["identifier"] ?? null,
    params: node["params"],
    decorators: [],
    body: node["body"],
    async: node["async"],
    generator: node["generator"],
    typeParameters: null,
    returnType: null,
  } as unknown as Node;
}

function removeDirective(step: Node): void {
  const { body } = functionParts(step);
  if (body === null) return;
  body["stmts"] = statementsOf(body).filter((one) => directiveText(one) !== "use step");
}

/** The call that makes a step's proxy; its thunk gives the variables that the body reads. */
function proxyOf(step: Node, id: string, captured: readonly string[], isLexical: boolean): Node {
  const thunk = captured.length === 0 ? "" : `, () => ({ ${captured.join(", ")} })`;
  const call = `globalThis[Symbol.for("WORKFLOW_USE_STEP")](${JSON.stringify(id)}${thunk})`;
  return parsedFor(step, isLexical ? `${call}.bind(this)` : call)["expression"] as Node;
}

/** The statement that registers a step's body, and reads its variables from the step's context. */
function registrationOf(step: Node, id: string, captured: readonly string[]): Node {
  const variables =
    captured.length === 0
      ? ""
      : `const { ${captured.join(", ")} } =
          globalThis[Symbol.for("WORKFLOW_STEP_CONTEXT_STORAGE")]?.getStore()?.closureVars ?? {};`;
  const body = `function (...__baton_args) {
    ${variables}
    return (${STEP_HERE}).apply(this, __baton_args);
  }`;
  const registry = `globalThis[Symbol.for("@workflow/core//registeredSteps")] ??= new Map()`;
  const stepId = JSON.stringify(id);
  return parsedFor(
    step,
    `(${registry}).set(${stepId}, Object.assign(${body}, { stepId: ${stepId} }));`,
  );
}

const STEP_HERE = "__baton_step";

/** Parses one statement of ours, puts the step in its place, and gives all of it the step's span. */
function parsedFor(step: Node, text: string): Node {
  const tree = parseSync(text, { syntax: "ecmascript", target: "es2022" }) as unknown as {
    body: Node[];
  };
  const fill = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(fill);
    if (typeof value !== "object" || value === null) return value;
    if (isNode(value) && value.type === "Identifier" && value["value"] === STEP_HERE) {
      return structuredClone(step);
    }
    const entries = Object.entries(value).map(([field, inner]): [string, unknown] => [
      field,
      field === "span" ? step.span : fill(inner),
    ]);
    return Object.fromEntries(entries);
  };
  return fill(tree.body[0]) as Node;
}
