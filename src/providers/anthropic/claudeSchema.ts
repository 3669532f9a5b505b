import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { mapItems, mapValues, typesOf, withNote } from "../chat/toolSchemas.ts";

/** Deeper schemas are left as they are. */
const LEVELS_MAX = 100;

/** The formats of strings that the interface enforces. */
const FORMATS: ReadonlySet<unknown> = new Set([
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "uri",
  "ipv4",
  "ipv6",
  "uuid",
]);

/** The interface has the variants of `anyOf`, so those of `oneOf` become such. */
const VARIANTS = ["anyOf", "oneOf"];

const SAYS_TYPE = ["enum", "const", "anyOf", "allOf"];

/**
 * A schema in the subset that the interface takes for structured outputs and for strict tools:
 * https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations. Anthropic's own SDKs
 * reduce schemas by the same rules: an object allows no other members, and what the interface refuses goes into the
 * description, where the model reads it. A schema that needs no change is returned itself; none is changed in place.
 */
export function claudeSchema(schema: JsonFields): JsonFields {
  // The name of the dialect constrains nothing.
  const { $schema: dialect, ...own } = schema;
  return reducedSchema(dialect === undefined ? schema : own, 0) as JsonFields;
}

function reducedSchema(schema: unknown, level: number): unknown {
  if (!isJsonObject(schema) || level > LEVELS_MAX) return schema;
  const inner = (value: unknown): unknown => reducedSchema(value, level + 1);
  const kept = new Map<string, unknown>();
  const removed: Record<string, unknown> = {};
  // A reference stands alone, beside the definitions of its document.
  const hasReference = typeof schema["$ref"] === "string";
  const types = impliedTypes(schema);
  for (const [key, value] of Object.entries(schema)) {
    const next = hasReference
      ? referenceMember(key, value, inner)
      : keptMember(key, value, { schema, types, inner });
    if (next !== undefined) kept.set(next.key, next.value);
    else if (!hasReference) removed[key] = value;
  }
  if (!hasReference && types.includes("object")) {
    kept.set("additionalProperties", false);
    if (!kept.has("properties")) kept.set("properties", {});
  }
  // The values and the variants say the type.
  if (SAYS_TYPE.some((key) => kept.has(key))) kept.delete("type");
  else if (!hasReference && types.length > 0 && !kept.has("type")) kept.set("type", types[0]);
  const isSame =
    kept.size === Object.keys(schema).length &&
    [...kept].every(([key, value]) => schema[key] === value && Object.hasOwn(schema, key));
  return isSame ? schema : withNote(Object.fromEntries(kept), removed);
}

interface Member {
  readonly key: string;
  readonly value: unknown;
}

function referenceMember(
  key: string,
  value: unknown,
  inner: (schema: unknown) => unknown,
): Member | undefined {
  if (key === "$ref") return { key, value };
  return isDefinitions(key, value) ? { key, value: mapValues(value, inner) } : undefined;
}

/** What the interface takes of a member; undefined for one that it refuses. */
function keptMember(
  key: string,
  value: unknown,
  at: {
    readonly schema: JsonFields;
    readonly types: readonly unknown[];
    readonly inner: (schema: unknown) => unknown;
  },
): Member | undefined {
  const { schema, types, inner } = at;
  switch (key) {
    case "type":
    case "title":
    case "description":
      return { key, value };
    case "enum":
      return Array.isArray(value) && value.every(isPrimitive) ? { key, value } : undefined;
    case "const":
      return isPrimitive(value) ? { key, value } : undefined;
    case "properties":
      return types.includes("object") && isJsonObject(value)
        ? { key, value: mapValues(value, inner) }
        : undefined;
    case "required":
      return types.includes("object") && Array.isArray(value) ? { key, value } : undefined;
    case "additionalProperties":
      return types.includes("object") && value === false ? { key, value } : undefined;
    case "items":
      return types.includes("array") && isJsonObject(value)
        ? { key, value: inner(value) }
        : undefined;
    case "minItems":
      return types.includes("array") && (value === 0 || value === 1) ? { key, value } : undefined;
    case "format":
      return types.includes("string") && FORMATS.has(value) ? { key, value } : undefined;
    case "anyOf":
    case "oneOf": {
      const isFirst = VARIANTS.find((name) => Array.isArray(schema[name])) === key;
      return Array.isArray(value) && isFirst
        ? { key: "anyOf", value: mapItems(value, inner) }
        : undefined;
    }
    case "allOf": {
      const hasVariants = VARIANTS.some((name) => Array.isArray(schema[name]));
      if (!Array.isArray(value) || hasVariants) return undefined;
      // The interface refuses a reference in `allOf`. Older generators wrap a single one to describe it.
      return { key: value.length === 1 ? "anyOf" : "allOf", value: mapItems(value, inner) };
    }
    default:
      return isDefinitions(key, value) ? { key, value: mapValues(value, inner) } : undefined;
  }
}

/** The types of a schema. One without any may show its type by its members. */
function impliedTypes(schema: JsonFields): readonly unknown[] {
  const types = typesOf(schema);
  if (types.length > 0) return types;
  if (isJsonObject(schema["properties"])) return ["object"];
  return isJsonObject(schema["items"]) ? ["array"] : [];
}

function isDefinitions(key: string, value: unknown): value is Record<string, unknown> {
  return (key === "$defs" || key === "definitions") && isJsonObject(value);
}

function isPrimitive(value: unknown): boolean {
  return value === null || typeof value !== "object";
}
