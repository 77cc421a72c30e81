/**
 * Streams as workflow code sees them: handles that can be passed on to steps, not read or written.
 */
import { NotAvailableError, SerializationError } from "./errors.ts";
import { runOf } from "./guest.ts";
import type { Guest } from "./guest.ts";
import {
  TypeErrorConstructor,
  WeakMapConstructor,
  define,
  keysOf,
  own,
  stringSlice,
  weakGet,
  weakSet,
} from "./primordials.ts";
import { addField, noFields } from "./realm.ts";
import type { Kind } from "./realm.ts";

const NAMESPACE_CHARS_MAX = 64;
const CLASSES = ["ReadableStream", "WritableStream", "TransformStream"] as const;

export interface Streams {
  readonly kinds: readonly Kind[];
  getWritable(options?: object): object;
}

/** Defines the stream classes on the global; their instances come from payloads alone. */
export function installStreamHandles(scope: object, guest: Guest): Streams {
  const data = new WeakMapConstructor<object, object>();
  const constructors = {} as Record<(typeof CLASSES)[number], new () => object>;
  let isOurs = false;
  for (let i = 0; i < CLASSES.length; i++) {
    const name = CLASSES[i]!;
    const Handle = class {
      constructor() {
        if (isOurs) return;
        throw new NotAvailableError(
          `${name} cannot be made in a workflow; make it in a step, or use getWritable()`,
        );
      }
    };
    define(Handle, "name", name, false);
    const members = ["getReader", "getWriter", "pipeTo", "pipeThrough", "tee", "cancel", "abort"];
    for (let j = 0; j < members.length; j++) {
      define(
        Handle.prototype,
        members[j]!,
        () => {
          throw new NotAvailableError(
            `a ${name} in a workflow is a handle: pass it to a step and use it there`,
          );
        },
        false,
      );
    }
    constructors[name] = Handle;
    define(scope, name, Handle, false);
  }

  function handleOf(name: "ReadableStream" | "WritableStream", fields: object): object {
    isOurs = true;
    const handle = new constructors[name]();
    isOurs = false;
    weakSet(data, handle, fields);
    return handle;
  }

  function kindOf(name: "ReadableStream" | "WritableStream"): Kind {
    return {
      tag: name,
      reduce(value) {
        const held = weakGet(data, value);
        if (held === undefined || !(value instanceof constructors[name])) return null;
        const fields = noFields();
        const keys = keysOf(held);
        for (let i = 0; i < keys.length; i++) addField(fields, keys[i]!, own(held, keys[i]!));
        return { tag: name, fields };
      },
      revive(revived) {
        if (typeof revived !== "object" || revived === null) {
          throw new SerializationError("a stream in a payload has no data");
        }
        return handleOf(name, revived);
      },
    };
  }

  return {
    kinds: [kindOf("ReadableStream"), kindOf("WritableStream")],
    getWritable(options) {
      const namespace = own(options ?? {}, "namespace");
      const isValid =
        namespace === undefined ||
        (typeof namespace === "string" &&
          namespace.length > 0 &&
          namespace.length <= NAMESPACE_CHARS_MAX);
      if (!isValid) {
        throw new TypeErrorConstructor(
          `getWritable: a namespace is a text of 1 to ${NAMESPACE_CHARS_MAX} characters`,
        );
      }
      const { runId } = runOf(guest);
      const suffix = namespace === undefined ? "" : `_${namespace as string}`;
      const name = `strm_${stringSlice(runId, "wrun_".length)}_user${suffix}`;
      return handleOf("WritableStream", { name, runId });
    },
  };
}
