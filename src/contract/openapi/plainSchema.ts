import type { TSchema } from "@sinclair/typebox";
import type { Annotations } from "../validationMessage.ts";

/** A JSON Schema in the dialect of OpenAPI 3.1, as plain JSON. */
export type PlainSchema = Readonly<Record<string, unknown>>;

/** Keywords that schemas have for our own error messages. The document leaves them out. */
const annotations: Readonly<Record<keyof Annotations, true>> = {
  described: true,
  range: true,
  patternMessage: true,
  problem: true,
};

/** Writes TypeBox's schemas, which are JSON Schema, as plain JSON. */
export interface SchemaWriter {
  /** A schema as the document has it: a reference if it is a component. */
  show(schema: TSchema): PlainSchema;
  /** The components. A component that contains another one refers to it. */
  components(): Readonly<Record<string, PlainSchema>>;
}

/** `named` are the schemas that become components. */
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

/** TypeBox copies a schema to make it optional. Both copies of an object schema share `properties`. */
function identity(schema: TSchema): object {
  const { properties } = schema as { readonly properties?: object };
  return properties ?? schema;
}

/** Flattens an `anyOf` inside an `anyOf`. */
function optionsOf(option: PlainSchema): readonly PlainSchema[] {
  const { anyOf, ...others } = option;
  const isBare = Array.isArray(anyOf) && Object.keys(others).length === 0;
  return isBare ? (anyOf as readonly PlainSchema[]) : [option];
}

/** TypeBox writes a choice of strings as constants. Readers and code generators expect an enum. */
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
