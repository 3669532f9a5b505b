import { fieldsOf, isGiven, isJsonObject, type JsonFields } from "../../lib/json.ts";

/** For interfaces that require a schema where the chat convention allows none. */
const NO_PARAMETERS: JsonFields = { type: "object", properties: {} };

/** What OpenAI and Anthropic refuse beside `type: "object"` at the top of a tool's parameters. */
const TOP_LEVEL_REFUSED = ["anyOf", "oneOf", "allOf", "enum", "const", "not"];

/** Deeper schemas and longer chains of references are left as they are. */
const LEVELS_MAX = 100;

/** How many properties the variants of one schema may have in all. With more, any object is accepted. */
const SHAPE_MEMBERS_MAX = 100_000;

/** A longer text of what was reduced helps no model. */
const REDUCED_CHARACTERS_MAX = 4000;

/**
 * The schema of a tool's parameters in the form that every interface takes: an object with `properties`, without
 * combinations at the top, and in the JSON Schema of 2020, in which an array has `items`. Variants become one object: it
 * has the properties of all of them and requires what all require. The description says what was reduced. A schema that
 * needs no change is returned itself; none is changed in place.
 */
export function parametersOf(schema: JsonFields | undefined): JsonFields {
  if (schema === undefined) return NO_PARAMETERS;
  return wellFormed(objectOf(schema), "", 0) as JsonFields;
}

/** Adds a text to the description of a schema. */
export function withNote(schema: JsonFields, reduced: JsonFields): JsonFields {
  const texts = Object.entries(reduced).map(([key, value]) => `${key}: ${shortened(value)}`);
  if (texts.length === 0) return schema;
  const { description } = schema;
  const before = typeof description === "string" && description !== "" ? `${description}\n\n` : "";
  return { ...schema, description: `${before}{${texts.join(", ")}}` };
}

function shortened(value: unknown): string {
  const text = JSON.stringify(value) ?? "";
  return text.length <= REDUCED_CHARACTERS_MAX ? text : `${text.slice(0, REDUCED_CHARACTERS_MAX)}…`;
}

const SCHEMA_MAPS = new Set([
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
]);
const SCHEMA_LISTS = new Set(["anyOf", "oneOf", "allOf", "prefixItems"]);
const SCHEMAS = new Set([
  "items",
  "additionalProperties",
  "contains",
  "propertyNames",
  "unevaluatedItems",
  "unevaluatedProperties",
  "not",
  "if",
  "then",
  "else",
]);

/** A schema with each schema directly in it replaced. The schema itself if none of them changes. */
export function mapSubschemas(
  schema: JsonFields,
  change: (inner: unknown, key: string) => unknown,
): JsonFields {
  let changed: Record<string, unknown> | undefined;
  for (const [key, value] of Object.entries(schema)) {
    const next = changedMember(key, value, change);
    if (next === value) continue;
    changed ??= { ...schema };
    changed[key] = next;
  }
  return changed ?? schema;
}

function changedMember(
  key: string,
  value: unknown,
  change: (inner: unknown, key: string) => unknown,
): unknown {
  const inner = (schema: unknown): unknown => change(schema, key);
  if (SCHEMA_MAPS.has(key)) return isJsonObject(value) ? mapValues(value, inner) : value;
  if (SCHEMA_LISTS.has(key)) return Array.isArray(value) ? mapItems(value, inner) : value;
  return SCHEMAS.has(key) && isJsonObject(value) ? inner(value) : value;
}

/** The object itself if no value changes. */
export function mapValues(values: JsonFields, change: (value: unknown) => unknown): JsonFields {
  const entries = Object.entries(values).map(([name, value]) => [name, change(value)] as const);
  const isSame = entries.every(([name, value]) => values[name] === value);
  return isSame ? values : Object.fromEntries(entries);
}

/** The list itself if no item changes. */
export function mapItems(
  list: readonly unknown[],
  change: (item: unknown) => unknown,
): readonly unknown[] {
  const items = list.map(change);
  return items.every((item, index) => item === list[index]) ? list : items;
}

/** The types that a schema allows; empty if it names none. */
export function typesOf({ type }: JsonFields): readonly unknown[] {
  if (Array.isArray(type)) return type;
  return typeof type === "string" ? [type] : [];
}

/** The top of the parameters as one object. */
function objectOf(schema: JsonFields): JsonFields {
  const isPlain = ["$ref", ...TOP_LEVEL_REFUSED].every((key) => !Object.hasOwn(schema, key));
  if (isPlain && schema["type"] === "object" && isJsonObject(schema["properties"])) return schema;
  const { properties: _, required: __, $ref: reference, ...own } = schema;
  const target = reference === undefined ? {} : memberAtPath(schema, reference);
  const { properties, required, isClosed } = new Shapes(schema).of(schema);
  const given = { ...fieldsOf(target), ...own };
  const top: Record<string, unknown> = { ...given, type: "object" };
  delete top["$ref"];
  const reduced: Record<string, unknown> = {};
  for (const key of TOP_LEVEL_REFUSED) {
    if (Object.hasOwn(top, key)) reduced[key] = top[key];
    delete top[key];
  }
  const types = typesOf(given);
  if (types.length > 0 && !types.includes("object")) reduced["type"] = given["type"];
  top["properties"] = Object.fromEntries(
    [...properties].map(([name, forms]) => [name, formOf(forms)]),
  );
  delete top["required"];
  if (required.size > 0) top["required"] = [...required];
  if (isClosed) top["additionalProperties"] = false;
  return withNote(top, reduced);
}

/** A property that the variants describe differently may have any of these forms. */
function formOf(forms: ReadonlySet<unknown>): unknown {
  if (forms.size === 1) return [...forms][0];
  const distinct = new Map([...forms].map((form) => [JSON.stringify(form), form]));
  return distinct.size === 1 ? [...forms][0] : { anyOf: [...distinct.values()] };
}

/** What a schema says about the members of an object. */
interface Shape {
  /** The schemas of each property. */
  readonly properties: ReadonlyMap<string, ReadonlySet<unknown>>;
  readonly required: ReadonlySet<unknown>;
  /** Whether it allows no other members. */
  readonly isClosed: boolean;
}

const ANY: Shape = { properties: new Map(), required: new Set(), isClosed: false };

/** The shapes of the variants of one schema. */
class Shapes {
  readonly #root: JsonFields;
  /** By reference. A definition that is being read counts as any object, so a circle ends. */
  readonly #definitions = new Map<unknown, Shape>();
  #membersLeft = SHAPE_MEMBERS_MAX;

  constructor(root: JsonFields) {
    this.#root = root;
  }

  of(schema: unknown, level = 0): Shape {
    if (!isJsonObject(schema) || level > LEVELS_MAX || this.#membersLeft < 0) return ANY;
    const { $ref: reference, anyOf, oneOf, allOf } = schema;
    const shapes = [ownShape(schema)];
    const of = (inner: unknown): Shape => this.of(inner, level + 1);
    if (reference !== undefined) shapes.push(this.#definition(reference, level));
    if (Array.isArray(allOf)) shapes.push(...allOf.map(of));
    for (const variants of [anyOf, oneOf]) {
      if (!Array.isArray(variants)) continue;
      // Null is no variant of an object.
      shapes.push(this.#any(variants.filter(mayBeObject).map(of)));
    }
    return this.#all(shapes);
  }

  #definition(reference: unknown, level: number): Shape {
    let shape = this.#definitions.get(reference);
    if (shape !== undefined) return shape;
    this.#definitions.set(reference, ANY);
    shape = this.of(memberAtPath(this.#root, reference), level + 1);
    this.#definitions.set(reference, shape);
    return shape;
  }

  #all(shapes: readonly Shape[]): Shape {
    if (shapes.length === 1) return shapes[0] ?? ANY;
    const required = (): unknown[] => shapes.flatMap((shape) => [...shape.required]);
    return this.#merged(
      shapes,
      required,
      shapes.some((shape) => shape.isClosed),
    );
  }

  #any(shapes: readonly Shape[]): Shape {
    const [first = ANY, ...others] = shapes;
    const required = (): unknown[] =>
      [...first.required].filter((name) => others.every((one) => one.required.has(name)));
    return this.#merged(
      shapes,
      required,
      shapes.every((shape) => shape.isClosed),
    );
  }

  #merged(shapes: readonly Shape[], required: () => unknown[], isClosed: boolean): Shape {
    for (const shape of shapes)
      this.#membersLeft -= shape.properties.size + shape.required.size + 1;
    if (this.#membersLeft < 0 || shapes.length === 0) return ANY;
    const merged = new Map<string, Set<unknown>>();
    for (const { properties } of shapes) {
      for (const [name, forms] of properties) {
        const all = merged.get(name) ?? new Set();
        for (const form of forms) all.add(form);
        merged.set(name, all);
      }
    }
    return { properties: merged, required: new Set(required()), isClosed };
  }
}

function ownShape({ properties, required, additionalProperties }: JsonFields): Shape {
  const own = Object.entries(fieldsOf(properties)).map(
    ([name, form]) => [name, new Set([form])] as const,
  );
  return {
    properties: new Map(own),
    required: new Set(Array.isArray(required) ? (required as unknown[]) : []),
    isClosed: additionalProperties === false,
  };
}

function mayBeObject(schema: unknown): boolean {
  const types = typesOf(fieldsOf(schema));
  return types.length === 0 || types.includes("object");
}

/** What a reference within the document names (https://www.rfc-editor.org/rfc/rfc6901); undefined for any other. */
function memberAtPath(root: JsonFields, reference: unknown): unknown {
  if (typeof reference !== "string" || !reference.startsWith("#/")) return undefined;
  return reference
    .slice(2)
    .split("/")
    .map((token) => token.replaceAll("~1", "/").replaceAll("~0", "~"))
    .reduce<unknown>(
      (value, name) =>
        isJsonObject(value) && Object.hasOwn(value, name) ? value[name] : undefined,
      root,
    );
}

/**
 * A schema within the parameters. PHP writes an empty object as []. OpenAI refuses an array without `items`, Anthropic
 * what the JSON Schema of 2020 does not have: a list as `items`, `exclusiveMinimum: true`, `required: true`,
 * `type: "any"`.
 */
function wellFormed(schema: unknown, key: string, level: number): unknown {
  if (Array.isArray(schema) && schema.length === 0) return {};
  // `additionalProperties` and the members of `properties` may be a boolean.
  if (schema === true && key === "properties") return {};
  if (!isJsonObject(schema) || level > LEVELS_MAX) return schema;
  const inner = mapSubschemas(schema, (value, at) => wellFormed(value, at, level + 1));
  const mended = new Map<string, unknown>();
  const { type, items, properties, required } = inner;
  const types = typesOf(inner).filter((name) => TYPES.has(name));
  if (type !== undefined && types.length === 0) mended.set("type", undefined);
  if (Array.isArray(items)) {
    mended.set("items", inner["additionalItems"] ?? {}).set("additionalItems", undefined);
    const prefix = items.map((item: unknown) => wellFormed(item, "prefixItems", level + 1));
    mended.set("prefixItems", prefix.length === 0 ? undefined : prefix);
  } else if (items === undefined && types.includes("array")) {
    mended.set("items", {});
  }
  if (Array.isArray(properties)) mended.set("properties", {});
  if (required !== undefined && !Array.isArray(required)) mended.set("required", undefined);
  for (const [bound, exclusive] of EXCLUSIVE_BOUNDS) {
    if (typeof inner[exclusive] !== "boolean") continue;
    const hasBound = isGiven(inner[bound]) && typeof inner[bound] !== "boolean";
    const isExclusive = inner[exclusive] && hasBound;
    mended.set(exclusive, isExclusive ? inner[bound] : undefined);
    if (isExclusive) mended.set(bound, undefined);
  }
  if (mended.size === 0) return inner;
  const members = Object.entries({ ...inner, ...Object.fromEntries(mended) });
  return Object.fromEntries(members.filter(([, value]) => value !== undefined));
}

const TYPES: ReadonlySet<unknown> = new Set([
  "object",
  "array",
  "string",
  "number",
  "integer",
  "boolean",
  "null",
]);

const EXCLUSIVE_BOUNDS = [
  ["minimum", "exclusiveMinimum"],
  ["maximum", "exclusiveMaximum"],
] as const;
