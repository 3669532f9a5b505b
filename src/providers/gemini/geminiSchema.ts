import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { mapSubschemas } from "../chat/toolSchemas.ts";

/** Deeper schemas are left as they are. */
const LEVELS_MAX = 100;

/**
 * A schema in the subset that the interface reads: https://ai.google.dev/api/generate-content#v1beta.GenerationConfig. It
 * allows nothing beside a reference, so a reference with a description becomes the only variant of a schema. A schema that
 * needs no change is returned itself; none is changed in place.
 */
export function geminiSchema(schema: JsonFields): JsonFields {
  return subsetOf(schema, 0) as JsonFields;
}

function subsetOf(schema: unknown, level: number): unknown {
  if (!isJsonObject(schema) || level > LEVELS_MAX) return schema;
  const inner = mapSubschemas(schema, (value) => subsetOf(value, level + 1));
  const { $ref: reference, ...beside } = inner;
  const isAlone = Object.keys(beside).every((key) => key.startsWith("$"));
  if (reference === undefined || isAlone) return inner;
  return { ...beside, anyOf: [{ $ref: reference }] };
}
