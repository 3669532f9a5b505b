import { keyHeaders } from "./answerHeaders.ts";
import { schemaReference } from "./plainSchema.ts";

/** An answer to a key, in JSON. */
export function answerToKey(schemaName: string, description: string): object {
  return { description, headers: keyHeaders, content: jsonContent(schemaName) };
}

/** A body of JSON, in the form of a named schema. */
export function jsonContent(schemaName: string): Readonly<Record<string, object>> {
  return { "application/json": { schema: schemaReference(schemaName) } };
}

/** The id at the end of a path. */
export function pathId(description: string): object {
  return { name: "id", in: "path", required: true, description, schema: { type: "string" } };
}
