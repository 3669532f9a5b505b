import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { call, type Reply } from "./chatCalls.ts";
import type { TestApp } from "./testApp.ts";

type Json = Readonly<Record<string, unknown>>;

/** The description of one answer of an operation. */
interface DescribedAnswer {
  readonly headers?: Readonly<Record<string, { required?: boolean; schema: Json }>>;
  readonly content: Readonly<Record<string, { readonly schema: Json }>>;
}

interface Operation {
  readonly security?: readonly unknown[];
  readonly responses: Readonly<Record<string, unknown>>;
}

/** The API's description as a gateway serves it, and what follows from it. */
export interface ApiDescription {
  readonly document: Json;
  readonly text: string;
  /** Each operation, by its method and path: `GET /healthz`. */
  readonly operations: ReadonlyMap<string, Operation>;
  /** An answer of an operation, with references resolved except those in schemas. Throws if it is not described. */
  readonly answer: (operation: string, status: number) => DescribedAnswer;
  /** The problems of a value for a named schema. `strictly`: a field that the schema does not list is a problem. */
  readonly complaints: (
    schemaName: string,
    value: unknown,
    strictly?: boolean,
  ) => readonly string[];
  /** The same for any schema of the document. */
  readonly complaintsOf: (schema: Json, value: unknown, strictly?: boolean) => readonly string[];
}

/** Asks a gateway for its description. */
export async function describedBy(gateway: Pick<TestApp, "url">): Promise<ApiDescription> {
  const { text, body } = await call(gateway, undefined, { path: "/openapi.json" });
  return readDescription(text, body as Json);
}

function readDescription(text: string, document: Json): ApiDescription {
  const components = document["components"] as Json;
  const checks = { open: checker(components), closed: checker(closed(components) as Json) };
  const paths = document["paths"] as Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  const operations = new Map(
    Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => [
        `${method.toUpperCase()} ${path}`,
        operation,
      ]),
    ),
  );
  const complaintsOf = (schema: Json, value: unknown, strictly = false): readonly string[] => {
    const validate = strictly ? checks.closed(closed(schema) as Json) : checks.open(schema);
    return validate(value) ? [] : (validate.errors ?? []).map((error) => JSON.stringify(error));
  };
  return {
    document,
    text,
    operations,
    answer: (operation, status) => {
      const described = operations.get(operation)?.responses[status];
      if (described === undefined) throw new Error(`${operation} describes no ${status}`);
      const answer = followed(document, described) as DescribedAnswer;
      const headers = Object.entries(answer.headers ?? {});
      return {
        ...answer,
        headers: Object.fromEntries(
          headers.map(([name, header]) => [name, followed(document, header) as typeof header]),
        ),
      };
    },
    complaints: (name, value, strictly) =>
      complaintsOf({ $ref: `#/components/schemas/${name}` }, value, strictly),
    complaintsOf,
  };
}

/** Compiles schemas that may refer to the components. In strict mode ajv refuses unknown keywords. */
function checker(components: Json): (schema: Json) => ValidateFunction {
  const ajv = new Ajv2020({ allErrors: true, strict: true, strictTypes: false });
  ajv.addVocabulary(["components"]);
  ajv.addFormat("date", /^\d{4}-\d\d-\d\d$/);
  ajv.addFormat("date-time", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/);
  const known = new Map<string, ValidateFunction>();
  return (schema) => {
    const text = JSON.stringify(schema);
    const validate = known.get(text) ?? ajv.compile({ ...schema, components });
    known.set(text, validate);
    return validate;
  };
}

/** The schemas in a value, each closed to fields that it does not list. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, closed(inner)] as const);
  const isListing = "properties" in value && "type" in value;
  return { ...Object.fromEntries(entries), ...(isListing ? { additionalProperties: false } : {}) };
}

function followed(document: Json, value: unknown): unknown {
  const { $ref } = value as { $ref?: string };
  if ($ref === undefined) return value;
  const found = $ref
    .split("/")
    .slice(1)
    .reduce<unknown>((part, name) => (part as Json | undefined)?.[name], document);
  if (found === undefined) throw new Error(`${$ref} leads nowhere`);
  return found;
}

/**
 * Differences between a reply and the description of the operation: its status, its headers (those that are missing,
 * of another form, or not described) and its body. `strictly`: a field that is not described is wrong too.
 */
export function differences(
  description: ApiDescription,
  operation: string,
  reply: Reply,
  strictly: boolean,
): readonly string[] {
  const answer = description.answer(operation, reply.status);
  const [type = ""] = (reply.headers.get("content-type") ?? "").split(";");
  const content = answer.content[type];
  if (content === undefined) return [`${type} is not described`];
  const body = type === "application/json" ? reply.body : reply.text;
  return [
    ...headerDifferences(description, answer, reply.headers),
    ...description.complaintsOf(content.schema, body, strictly),
  ];
}

function headerDifferences(
  description: ApiDescription,
  { headers = {} }: DescribedAnswer,
  sent: Headers,
): readonly string[] {
  const own = [...sent.keys()].filter((name) => /^(?:x-(?!accel)|retry-after)/.test(name));
  const unknown = own.filter((name) => !(name in headers));
  const wrong = Object.entries(headers).flatMap(([name, { required = false, schema }]) => {
    const text = sent.get(name);
    if (text === null) return required ? [`${name} is missing`] : [];
    const value = schema["type"] === "integer" ? Number(text) : text;
    return description.complaintsOf(schema, value).map((complaint) => `${name}: ${complaint}`);
  });
  return [...unknown.map((name) => `${name} is not described`), ...wrong];
}
