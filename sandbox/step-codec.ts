/**
 * The codec of host steps: payloads with everything that trusted code may hold.
 *
 * Owns the two kinds of values that only it can use: step functions, which become callable, and the
 * registered classes of the bundle that the step belongs to.
 */
import type {
  ErrorClass,
  HostCodec,
  HostRealm,
  LiveValues,
  StepReference,
} from "../engine/ports/steps.ts";
import { errorExports } from "./guest/errors.ts";
import { OpaqueValue, addField, noFields } from "./guest/realm.ts";
import type { Kind, Reduced } from "./guest/realm.ts";
import { decodePayload, encodePayload } from "./host-codec.ts";

export const stepCodec: HostCodec = {
  decode: (payload, realm) => decodePayload(payload, optionsOf(realm)),
  encode: (value, what, realm) => encodePayload(value, { ...optionsOf(realm), what }),
  date: (atMs) => new Date(atMs),
  tagged: (tag, data) => new OpaqueValue(tag, data),
  carried: (tag, value) =>
    value instanceof OpaqueValue && value.tag === tag
      ? (value.data as Readonly<Record<string, unknown>>)
      : null,
  errors: errorExports as unknown as Readonly<Record<string, ErrorClass>>,
};

function optionsOf(realm: HostRealm) {
  const { live } = realm;
  const liveKinds = live?.tags.map((tag) => liveKind(tag, live)) ?? [];
  return { classes: realm.classes, kinds: [stepFunctions(realm), ...liveKinds] };
}

/** A signal's reason may be anything; what cannot cross is told as a text. */
const LENIENT_TAGS = ["AbortSignal", "AbortController"];

function liveKind(tag: string, live: LiveValues): Kind {
  return {
    tag,
    reduce(value) {
      const data = live.dataOf(tag, value);
      if (data === null) return null;
      const fields = noFields(LENIENT_TAGS.includes(tag));
      for (const [key, item] of Object.entries(data)) addField(fields, key, item);
      return { tag, fields };
    },
    revive(data) {
      if (typeof data === "object" && data !== null) {
        return live.valueOf(tag, data as Readonly<Record<string, unknown>>);
      }
      throw new errorExports.SerializationError(`a ${tag} in a payload has no data`);
    },
  };
}

function stepFunctions(realm: HostRealm): Kind {
  return {
    tag: "StepFunction",
    reduce(value) {
      const reference = realm.stepReference(value);
      return reference === null ? null : reducedOf(reference);
    },
    revive: (data) => realm.stepFunction(referenceOf(data)),
  };
}

function reducedOf(reference: StepReference): Reduced {
  const fields = addField(noFields(), "stepId", reference.stepId);
  const { closureVars, boundArgs } = reference;
  if (closureVars !== undefined) addField(fields, "closureVars", closureVars);
  if (boundArgs !== undefined) {
    addField(fields, "boundThis", reference.boundThis);
    addField(fields, "boundArgs", boundArgs);
  }
  return { tag: "StepFunction", fields };
}

function referenceOf(data: unknown): StepReference {
  const { stepId, closureVars, boundThis, boundArgs } = data as Readonly<Record<string, unknown>>;
  if (typeof stepId !== "string") {
    throw new errorExports.SerializationError("a step function has no id");
  }
  return {
    stepId,
    ...(closureVars === undefined ? {} : { closureVars }),
    ...(Array.isArray(boundArgs) ? { boundThis, boundArgs } : {}),
  };
}
