import { Kind, OptionalKind, type TSchema } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { isJsonObject } from "../lib/json.ts";

const SHOWN_KEY_CHARACTERS_MAX = 64;

/** Annotations of a schema for messages. TypeBox's check ignores them. */
export interface Annotations {
  /** The expected value with its article, such as "an array of parts". Default: the schema's type. */
  readonly described?: string;
  /** Both limits of an array's length, such as "1 to 4 items". */
  readonly range?: string;
  /** What follows "must" in the message for a string that does not match the pattern. */
  readonly patternMessage?: string;
  /** A further check of an object that fits the schema. Returns the message of its problem. */
  readonly problem?: (value: object, path: string) => string | undefined;
}

/** The members of a TypeBox schema that are read here. */
interface SchemaParts extends Annotations {
  readonly type?: string;
  readonly const?: unknown;
  readonly properties?: Readonly<Record<string, TSchema>>;
  readonly additionalProperties?: unknown;
  readonly items?: TSchema;
  readonly anyOf?: readonly TSchema[];
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
}

/**
 * The message of the first problem of a value, in the order of the schema's fields; undefined if there is none. (TypeBox
 * itself reports all missing fields first.) The recursion depth is that of the schema, not of the value.
 */
export function validationMessage(schema: TSchema, value: unknown, path = ""): string | undefined {
  const must = `${path === "" ? "body" : path} must`;
  switch (schema[Kind]) {
    case "Object":
      return isJsonObject(value) ? objectProblem(schema, value, path) : `${must} be an object`;
    case "Array":
      return Array.isArray(value)
        ? arrayProblem(schema, value, path)
        : `${must} be ${describe(schema)}`;
    case "Union":
      return unionProblem(schema, value, path);
    case "Integer":
    case "Number":
      return numberProblem(schema, value, must);
    case "String":
      return stringProblem(schema, value, must);
    default:
      return Value.Check(schema, value) ? undefined : `${must} be ${describe(schema)}`;
  }
}

/** A client's key, cut for a message. */
export function shownKey(key: string): string {
  return key.length > SHOWN_KEY_CHARACTERS_MAX
    ? `${key.slice(0, SHOWN_KEY_CHARACTERS_MAX)}...`
    : key;
}

function objectProblem(
  schema: TSchema,
  value: Record<string, unknown>,
  path: string,
): string | undefined {
  const { properties = {}, additionalProperties, problem } = parts(schema);
  const inside = path === "" ? "" : `${path}.`;
  for (const [key, property] of Object.entries(properties)) {
    const found = Object.hasOwn(value, key) ? value[key] : undefined;
    if (found === undefined) {
      if (property[OptionalKind] === undefined) return `${inside}${key} is required`;
      continue;
    }
    const problem = validationMessage(property, found, inside + key);
    if (problem !== undefined) return problem;
  }
  const other = problem?.(value, path);
  if (other !== undefined || additionalProperties !== false) return other;
  const unknown = Object.keys(value).find((key) => !Object.hasOwn(properties, key));
  return unknown === undefined ? undefined : `${inside}${shownKey(unknown)} is not supported`;
}

function arrayProblem(
  schema: TSchema,
  value: readonly unknown[],
  path: string,
): string | undefined {
  const { items, minItems = 0, maxItems = Infinity, range } = parts(schema);
  const must = `${path} must contain`;
  if (value.length < minItems) return `${must} ${range ?? `at least ${countItems(minItems)}`}`;
  if (value.length > maxItems) return `${must} ${range ?? `at most ${countItems(maxItems)}`}`;
  if (items === undefined) return undefined;
  for (const [index, item] of value.entries()) {
    const problem = validationMessage(items, item, `${path}[${index}]`);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

/** The problem of the alternative that has the value's type, or else a list of all alternatives. */
function unionProblem(schema: TSchema, value: unknown, path: string): string | undefined {
  const { anyOf = [] } = parts(schema);
  const options = anyOf.filter((option) => option[Kind] !== "Null");
  if (value === null && options.length < anyOf.length) return undefined;
  const alternative =
    options.length === 1 ? options[0] : options.find((option) => hasTypeOf(option, value));
  if (alternative !== undefined) return validationMessage(alternative, value, path);
  if (options.every((option) => option[Kind] === "Literal")) {
    const values = options.map((option) => parts(option).const);
    return values.includes(value) ? undefined : `${path} must be one of: ${values.join(", ")}`;
  }
  return `${path} must be ${options.map(describe).join(" or ")}`;
}

function hasTypeOf(option: TSchema, value: unknown): boolean {
  switch (option[Kind]) {
    case "String":
      return typeof value === "string";
    case "Array":
      return Array.isArray(value);
    case "Object":
      return isJsonObject(value);
    case "Integer":
      return typeof value === "number";
    default:
      return false;
  }
}

function numberProblem(schema: TSchema, value: unknown, must: string): string | undefined {
  const { minimum = -Infinity, maximum = Infinity } = parts(schema);
  if (typeof value !== "number") return `${must} be ${describe(schema)}`;
  const isWhole = Number.isInteger(value) || !Number.isFinite(value);
  if (schema[Kind] === "Integer" && !isWhole) return `${must} be an integer`;
  if (value >= minimum && value <= maximum) return undefined;
  // A range that ends at the largest exact integer is not useful in a message.
  if (minimum !== -Infinity && maximum < Number.MAX_SAFE_INTEGER) {
    return `${must} be between ${minimum} and ${maximum}`;
  }
  return value < minimum ? `${must} be at least ${minimum}` : `${must} be at most ${maximum}`;
}

function stringProblem(schema: TSchema, value: unknown, must: string): string | undefined {
  const { minLength = 0, maxLength = Infinity, patternMessage } = parts(schema);
  if (typeof value !== "string") return `${must} be a string`;
  if (value.length < minLength) return `${must} not be empty`;
  if (value.length > maxLength) return `${must} be at most ${maxLength} characters long`;
  return Value.Check(schema, value)
    ? undefined
    : `${must} ${patternMessage ?? "have another form"}`;
}

function describe(schema: TSchema): string {
  const { described, type } = parts(schema);
  if (described !== undefined) return described;
  return type === "integer" || type === "array" || type === "object" ? `an ${type}` : `a ${type}`;
}

function parts(schema: TSchema): SchemaParts {
  return schema as SchemaParts;
}

function countItems(count: number): string {
  return count === 1 ? "1 item" : `${count} items`;
}
