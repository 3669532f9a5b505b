import { isJsonObject, type JsonFields } from "../../lib/json.ts";

/**
 * The members that OpenAI's strict mode reads in a schema. It refuses all others:
 * https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
 */
const STRICT_MEMBERS = new Set([
  "type",
  "properties",
  "required",
  "additionalProperties",
  "items",
  "anyOf",
  "enum",
  "const",
  "$ref",
  "$defs",
  "definitions",
  "title",
  "description",
  "pattern",
  "format",
  "multipleOf",
  "minimum",
  "exclusiveMinimum",
  "maximum",
  "exclusiveMaximum",
  "minItems",
  "maxItems",
]);
const STRICT_FORMATS: ReadonlySet<unknown> = new Set([
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "ipv4",
  "ipv6",
  "uuid",
]);
/** Names of the document at its top say nothing about the values. */
const DOCUMENT_MEMBERS = new Set(["$schema", "$id"]);
const STRICT_LEVELS_MAX = 10;
const STRICT_PROPERTIES_MAX = 5000;

/**
 * Whether a schema satisfies OpenAI's strict mode: each object names all its members, requires them and allows no
 * other. OpenAI refuses the whole request for a schema that does not.
 */
export function isStrictSchema(schema: JsonFields): boolean {
  if (schema["type"] !== "object") return false;
  const top = Object.entries(schema).filter(([key]) => !DOCUMENT_MEMBERS.has(key));
  const count = { propertiesLeft: STRICT_PROPERTIES_MAX };
  return isStrict(Object.fromEntries(top), count, 0) && count.propertiesLeft >= 0;
}

function isStrict(schema: unknown, count: { propertiesLeft: number }, level: number): boolean {
  if (!isJsonObject(schema) || level > STRICT_LEVELS_MAX) return false;
  const keys = Object.keys(schema);
  if (!keys.every((key) => STRICT_MEMBERS.has(key))) return false;
  const { $ref: reference, type, anyOf, items, format, $defs, definitions } = schema;
  // A reference stands alone. Beside it only the definitions of the top are read.
  if (reference !== undefined) {
    return keys.length === 1 && typeof reference === "string" && reference.startsWith("#");
  }
  if (format !== undefined && !STRICT_FORMATS.has(format)) return false;
  const areStrict = (inner: readonly unknown[], levels: number): boolean =>
    inner.every((one) => isStrict(one, count, level + levels));
  for (const named of [$defs, definitions]) {
    if (named !== undefined && !(isJsonObject(named) && areStrict(Object.values(named), 0))) {
      return false;
    }
  }
  if (anyOf !== undefined) return Array.isArray(anyOf) && anyOf.length > 0 && areStrict(anyOf, 0);
  const types: readonly unknown[] = Array.isArray(type) ? type : [type];
  if (!types.every((name) => typeof name === "string")) return false;
  if (types.includes("array") && !areStrict([items], 1)) return false;
  return !types.includes("object") || isStrictObject(schema, count, areStrict);
}

function isStrictObject(
  { properties, required, additionalProperties }: JsonFields,
  count: { propertiesLeft: number },
  areStrict: (inner: readonly unknown[], levels: number) => boolean,
): boolean {
  if (!isJsonObject(properties) || additionalProperties !== false) return false;
  const names = Object.keys(properties);
  count.propertiesLeft -= names.length;
  const listed = new Set(Array.isArray(required) ? (required as unknown[]) : []);
  const areRequired = listed.size === names.length && names.every((name) => listed.has(name));
  return areRequired && areStrict(Object.values(properties), 1);
}
