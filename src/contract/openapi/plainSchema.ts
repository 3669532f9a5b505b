import type { TSchema } from "@sinclair/typebox";
import type { Annotations } from "../validationMessage.ts";

/** A JSON Schema of the dialect of OpenAPI 3.1, as plain JSON. */
export type PlainSchema = Readonly<Record<string, unknown>>;

/** What a schema carries for our own messages only. */
const annotations: Readonly<Record<keyof Annotations, true>> = {
  described: true,
  range: true,
  patternMessage: true,
  problem: true,
};

/**
 * The named schemas as plain JSON, without our own annotations. One that stands within another is there by reference.
 * TypeBox's schemas are JSON Schema already, so what is described is what is checked.
 */
export function plainSchemas(
  named: Readonly<Record<string, TSchema>>,
): Readonly<Record<string, PlainSchema>> {
  const names = new Map(Object.entries(named).map(([name, schema]) => [identity(schema), name]));
  const shown = (schema: TSchema): PlainSchema => {
    const name = names.get(identity(schema));
    return name === undefined ? plain(schema) : schemaReference(name);
  };
  const plain = (schema: TSchema): PlainSchema => {
    const keywords = Object.entries(schema).filter(([keyword]) => !(keyword in annotations));
    return asEnum(
      Object.fromEntries(keywords.map(([keyword, value]) => [keyword, inside(keyword, value)])),
    );
  };
  const inside = (keyword: string, value: unknown): unknown => {
    switch (keyword) {
      case "items":
        return shown(value as TSchema);
      case "anyOf":
        return (value as readonly TSchema[]).map(shown).flatMap(optionsOf);
      case "properties":
        return mapValues(value as Readonly<Record<string, TSchema>>, shown);
      default:
        return value;
    }
  };
  return mapValues(named, plain);
}

/** Where a named schema is meant. */
export function schemaReference(name: string): { readonly $ref: string } {
  return { $ref: `#/components/schemas/${name}` };
}

/** TypeBox makes a copy of a schema that becomes optional; what an object's properties are is the same in both. */
function identity(schema: TSchema): object {
  const { properties } = schema as { readonly properties?: object };
  return properties ?? schema;
}

/** A choice that is one of the options of another says no more than its own options there. */
function optionsOf(option: PlainSchema): readonly PlainSchema[] {
  const { anyOf, ...others } = option;
  const isBare = Array.isArray(anyOf) && Object.keys(others).length === 0;
  return isBare ? (anyOf as readonly PlainSchema[]) : [option];
}

/** TypeBox writes one of a few strings as so many constants; readers and generators know it as an enum. */
function asEnum(schema: PlainSchema): PlainSchema {
  const { anyOf, ...others } = schema;
  if (!Array.isArray(anyOf)) return schema;
  const options = anyOf as readonly PlainSchema[];
  if (!options.every(({ type, const: value }) => type === "string" && value !== undefined)) {
    return schema;
  }
  return { ...others, type: "string", enum: options.map((option) => option["const"]) };
}

function mapValues<From, To>(
  record: Readonly<Record<string, From>>,
  change: (value: From) => To,
): Record<string, To> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}
