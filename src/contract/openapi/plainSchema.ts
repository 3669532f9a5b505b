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

/** Writes TypeBox's schemas as plain JSON. TypeBox's schemas are JSON Schema already, so what is described is what is checked. */
export interface SchemaWriter {
  /** A schema as it stands in the document: a reference where it has a name there. */
  show(schema: TSchema): PlainSchema;
  /** The named schemas themselves. One that stands within another is there by reference. */
  components(): Readonly<Record<string, PlainSchema>>;
}

/** `named` are the schemas that get a name in the document. Our own annotations are left out. */
export function createSchemaWriter(named: Readonly<Record<string, TSchema>>): SchemaWriter {
  const names = new Map(Object.entries(named).map(([name, schema]) => [identity(schema), name]));
  const show = (schema: TSchema): PlainSchema => {
    const name = names.get(identity(schema));
    return name === undefined ? plain(schema) : { $ref: `#/components/schemas/${name}` };
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
        return show(value as TSchema);
      case "anyOf":
        return (value as readonly TSchema[]).map(show).flatMap(optionsOf);
      case "properties":
        return mapValues(value as Readonly<Record<string, TSchema>>, show);
      default:
        return value;
    }
  };
  return { show, components: () => mapValues(named, plain) };
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
