import type { TSchema } from "@sinclair/typebox";
import { Errors, ValueErrorType } from "@sinclair/typebox/errors";
import type { ValueError } from "@sinclair/typebox/errors";
import { joinKey } from "./inspection.ts";
import type { Inspection } from "./inspection.ts";
import { nearest } from "./nearest.ts";
import { ConfigFile } from "./schema.ts";

/** A value that has the shape of `T` as far as it goes: what was missing or wrong is undefined. */
export type Sound<T> = T extends readonly (infer Item)[]
  ? readonly (Sound<Item> | undefined)[]
  : T extends object
    ? { readonly [Key in keyof T]?: Sound<T[Key]> | undefined }
    : T;

export type ProviderFile = NonNullable<NonNullable<Sound<ConfigFile>["providers"]>[number]>;
export type ModelFile = NonNullable<NonNullable<Sound<ConfigFile>["models"]>[number]>;

/**
 * Checks a parsed file against the schema and reports every problem. It returns the same tree with each
 * wrong value taken out, so that what is sound can still be judged in the same run.
 */
export function checkShape(tree: unknown, inspection: Inspection): Sound<ConfigFile> {
  // The errors are found while they are asked for, and the tree is changed below: so all of them first.
  const errors = Array.from(Errors(ConfigFile, tree));
  for (const error of errors) {
    const place = locate(tree, error.path);
    inspection.problem(place.key, describe(error, place));
    if (error.type !== ValueErrorType.ObjectAdditionalProperties) place.clear();
  }
  // The schema has just vouched for every value that is left.
  return tree as Sound<ConfigFile>;
}

function describe({ type, schema }: ValueError, { key, name }: Place): string {
  if (type === ValueErrorType.ObjectAdditionalProperties) return describeUnknown(name, schema);
  if (type === ValueErrorType.ObjectRequiredProperty) return `is required: ${schema.description}`;
  if (type === ValueErrorType.StringMaxLength) {
    return `must have at most ${schema["maxLength"]} characters`;
  }
  if (type === ValueErrorType.ArrayMaxItems) {
    return `must have at most ${schema["maxItems"]} items`;
  }
  const isSection = type === ValueErrorType.Object && key === name;
  return `must be ${schema.description}${isSection ? `: write [${name}]` : ""}`;
}

function describeUnknown(name: string, schema: TSchema): string {
  const properties: unknown = schema["properties"];
  const known =
    typeof properties === "object" && properties !== null ? Object.keys(properties) : [];
  const meant = nearest(name, known);
  if (meant !== undefined) return `unknown key; did you mean ${meant}?`;
  return `unknown key; the keys here are ${known.join(", ")}`;
}

interface Place {
  /** As the operator writes it: `providers[0].base_url`. */
  readonly key: string;
  /** Its last part. */
  readonly name: string;
  /** Makes the value undefined. */
  clear(): void;
}

/** Follows a JSON pointer, which is how the schema's errors name their place, into the tree. */
function locate(tree: unknown, pointer: string): Place {
  const names = pointer.split("/").slice(1);
  let key = "";
  let name = "";
  let value = tree;
  let clear = () => {};
  for (const escaped of names) {
    name = escaped.replaceAll("~1", "/").replaceAll("~0", "~");
    const holder: unknown = value;
    key = Array.isArray(holder) ? `${key}[${name}]` : joinKey(key, name);
    value = typeof holder === "object" && holder !== null ? Reflect.get(holder, name) : undefined;
    const last = name;
    clear = () => {
      if (typeof holder !== "object" || holder === null) return;
      Object.defineProperty(holder, last, { value: undefined, configurable: true, writable: true });
    };
  }
  return { key, name, clear };
}
