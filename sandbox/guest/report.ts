/**
 * What a heap tells the host, as text.
 *
 * Built by concatenation of primitives alone: no object of the library or of the tenant is walked
 * by a serializer, so no `toJSON`, getter or patched prototype can put a word in.
 */
import type { Line } from "./console.ts";
import type { Operation, Operations } from "./operations.ts";
import { arrayJoin, jsonOf, list, mapDelete, mapForEach, push } from "./primordials.ts";
import type { HookState } from "./hooks.ts";

/** How the workflow function ended: devalue text of its output or error. */
export interface Done {
  readonly ok: boolean;
  readonly text: string;
  readonly code: string | null;
}

export interface ReportParts {
  readonly operations: Operations;
  /** Hooks that may be waited on, by id; those that are not are dropped here. */
  readonly watched: Map<string, HookState>;
  readonly done: Done | null;
  readonly lines: readonly Line[];
}

export function reportText(
  parts: ReportParts,
  asked: readonly Operation[],
  closed: readonly string[],
): string {
  const awaited = list<string>();
  const awaitedConflicts = list<string>();
  mapForEach(parts.watched, (hook, id) => {
    const isAwaited = hook.isAwaited();
    const awaitsConflict = hook.awaitsConflict();
    if (isAwaited) push(awaited, id);
    if (awaitsConflict) push(awaitedConflicts, id);
    if (!isAwaited && !awaitsConflict) mapDelete(parts.watched, id);
  });
  return (
    `{"asked":[${joined(asked, askText)}]` +
    `,"closed":[${joined(closed, jsonOf)}]` +
    `,"awaited":[${joined(awaited, jsonOf)}]` +
    `,"awaitedConflicts":[${joined(awaitedConflicts, jsonOf)}]` +
    `,"done":${doneText(parts.done)}` +
    `,"console":[${joined(parts.lines, lineText)}]` +
    `,"drawn":${parts.operations.drawn}}`
  );
}

/** What the bundle registered when it was evaluated. */
export function registeredText(workflows: Map<string, unknown>, steps: readonly string[]): string {
  const names = list<string>();
  mapForEach(workflows, (_, name) => push(names, name));
  return `{"workflows":[${joined(names, jsonOf)}],"steps":[${joined(steps, jsonOf)}]}`;
}

function askText(operation: Operation): string {
  if (operation.kind === "dispose") return `{"k":"dispose","n":null,"id":${jsonOf(operation.id)}}`;
  const head = `{"k":"${operation.kind}","n":${operation.n},"id":${jsonOf(operation.id)}`;
  switch (operation.kind) {
    case "step": {
      const name = `,"name":${jsonOf(operation.name)}`;
      return operation.input === null
        ? `${head}${name},"error":${jsonOf(operation.error ?? "-1")}}`
        : `${head}${name},"input":${jsonOf(operation.input)}}`;
    }
    case "wait":
      return `${head},"at":${operation.at}}`;
    case "attr":
      return `${head},"changes":[${joined(operation.changes, changeText)}]}`;
    case "hook": {
      const { request } = operation.hook;
      return (
        `${head},"token":${jsonOf(request.token)},"metadata":${jsonOf(request.metadata)}` +
        `,"webhook":${request.webhook},"system":${request.system},"force":${request.force}` +
        `,"retentionMs":${request.retentionMs},"conflict":${operation.hook.awaitsConflict()}}`
      );
    }
    default:
      return operation satisfies never;
  }
}

function changeText(change: { readonly key: string; readonly value: string | null }): string {
  return `{"key":${jsonOf(change.key)},"value":${jsonOf(change.value)}}`;
}

function doneText(done: Done | null): string {
  if (done === null) return "null";
  return `{"ok":${done.ok},"text":${jsonOf(done.text)},"code":${jsonOf(done.code)}}`;
}

export function lineText(line: Line): string {
  return `{"level":"${line.level}","text":${jsonOf(line.text)}}`;
}

function joined<T>(items: readonly T[], textOf: (item: T) => string): string {
  if (items.length === 0) return "";
  const texts = list<string>();
  for (let i = 0; i < items.length; i++) push(texts, textOf(items[i]!));
  return arrayJoin(texts, ",");
}
