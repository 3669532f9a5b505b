import { Kind, OptionalKind, type TSchema } from "@sinclair/typebox";
import { Value } from "@sinclair/typebox/value";
import { isJsonObject } from "../lib/json.ts";

const SHOWN_KEY_CHARACTERS_MAX = 64;

/** Annotations that a schema may carry beside TypeBox's own keywords. They take no part in TypeBox's check. */
export interface Annotations {
  /** What the value must be, with its article ("an array of parts"), where the schema's kind says too little. */
  readonly described?: string;
  /** Both limits of an array's length in words ("1 to 4 items"), named together whichever is broken. */
  readonly range?: string;
  /** What a string must or must not do to match the schema's pattern. */
  readonly patternMessage?: string;
  /** A further check of an object that fits the schema: what is wrong with it, in words. */
  readonly problem?: (value: object, path: string) => string | undefined;
}

/** What is read of a schema here, as TypeBox writes it. */
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
 * Says in words what is wrong with a value: the first problem in the order in which the schema lists its fields, which
 * is not the order in which TypeBox reports them (all that are missing come first there). Undefined where it fits.
 * Recursion follows the schema, never the depth of the value.
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

/** A client's key as it may stand in a message: cut where it is long. */
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
  const further = problem?.(value, path);
  if (further !== undefined || additionalProperties !== false) return further;
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

/** Complains about the alternative that the value was meant for, or names them all. */
function unionProblem(schema: TSchema, value: unknown, path: string): string | undefined {
  const { anyOf = [] } = parts(schema);
  const options = anyOf.filter((option) => option[Kind] !== "Null");
  if (value === null && options.length < anyOf.length) return undefined;
  const meant =
    options.length === 1 ? options[0] : options.find((option) => isMeant(option, value));
  if (meant !== undefined) return validationMessage(meant, value, path);
  if (options.every((option) => option[Kind] === "Literal")) {
    const values = options.map((option) => parts(option).const);
    return values.includes(value) ? undefined : `${path} must be one of: ${values.join(", ")}`;
  }
  return `${path} must be ${options.map(describe).join(" or ")}`;
}

function isMeant(option: TSchema, value: unknown): boolean {
  switch (option[Kind]) {
    case "String":
      return typeof value === "string";
    case "Array":
      return Array.isArray(value);
    case "Object":
      return isJsonObject(value);
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
  // The largest exact integer is a limit of numbers as such: nobody is helped by a range that ends there.
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
