import { openTestApp } from "../../test/support/gateway/testApp.ts";
import { anchorOf, code, plainText } from "./markdown.ts";

/** What the page reads of an OpenAPI document. */
interface Document {
  readonly info: { readonly description: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, Schema>>;
    readonly responses: Readonly<Record<string, Answer>>;
    readonly headers: Readonly<Record<string, Described>>;
  };
}

interface Described {
  readonly description?: string;
}

interface Reference {
  readonly $ref?: string;
}

interface Operation extends Described {
  readonly summary: string;
  readonly parameters?: readonly (Described & {
    readonly name: string;
    readonly in: string;
    readonly required?: boolean;
    readonly schema: Schema;
  })[];
  readonly requestBody?: Answer;
  readonly responses: Readonly<Record<string, Answer>>;
}

interface Call extends Operation {
  /** Such as `GET /healthz`. */
  readonly name: string;
}

interface Answer extends Described, Reference {
  readonly headers?: Readonly<Record<string, Reference>>;
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>;
}

interface Schema extends Described, Reference {
  readonly type?: string;
  readonly enum?: readonly string[];
  readonly const?: string | boolean;
  readonly anyOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly default?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
}

const introduction = `The gateway serves this as \`GET /openapi.json\` (OpenAPI 3.1). [The HTTP API](http/index.md) says what the fields mean together, and why.
Clients must ignore fields that they do not know. [Errors](errors.md) lists all messages. Errors of \`/v1/messages\` have the form
[MessagesError](#messageserror).`;

/** The calls and the schemas of `GET /openapi.json`. */
export async function apiPage(): Promise<string> {
  const { paths, components } = await apiDocument();
  const calls = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, call]) =>
      Object.assign(call, { name: `${method.toUpperCase()} ${path}` }),
    ),
  );
  const errors = calls.flatMap(({ responses }) =>
    Object.entries(responses).flatMap(([status, { $ref }]) => {
      const shared = components.responses[$ref?.split("/").at(-1) ?? ""];
      return shared === undefined ? [] : [[status, `- ${status}: ${answerOf(shared)}`] as const];
    }),
  );
  const headers = calls
    .flatMap(({ responses }) => Object.values(responses))
    .concat(Object.values(components.responses))
    .flatMap((answer) => Object.entries(answer.headers ?? {}));
  return [
    "# API reference",
    introduction,
    "## Calls",
    ...calls.map((call) => callPart(call, new Map(errors))),
    "## Statuses of errors",
    [...new Map(errors).values()].toSorted((a, b) => a.localeCompare(b)).join("\n"),
    "## Headers of answers",
    [...new Map(headers)]
      .map(([name, { $ref }]) => {
        const { description = "" } = components.headers[$ref?.split("/").at(-1) ?? ""] ?? {};
        return `- ${code(name)}: ${plainText(description)}`;
      })
      .join("\n"),
    "## Schemas",
    ...Object.entries(components.schemas).map(([name, schema]) =>
      [`### ${name}`, ...schemaParts(schema)].join("\n\n"),
    ),
  ].join("\n\n");
}

/** The document does not depend on the config. */
async function apiDocument(): Promise<Document> {
  const gateway = await openTestApp({
    providers: { any: "http://127.0.0.1:9" },
    models: [{ id: "any", routes: [{ provider: "any" }] }],
  });
  try {
    return (await (await fetch(`${gateway.url}/openapi.json`)).json()) as Document;
  } finally {
    await gateway.close();
  }
}

function callPart(
  { name, summary, description = "", parameters = [], requestBody, responses }: Call,
  errors: ReadonlyMap<string, string>,
): string {
  const given = parameters.map(({ name: parameter, in: where, required, schema, ...text }) =>
    item(parameter, [`in the ${where}`, formOf(schema), required ? "" : "optional"], text),
  );
  const statuses = Object.keys(responses);
  const others = statuses.filter((status) => !errors.has(status));
  return [
    `### ${code(name)}`,
    `${summary}.`,
    plainText(description),
    given.join("\n"),
    requestBody === undefined ? "" : `**Body.** ${answerOf(requestBody)}`,
    ...others.map((status) => `**${status}.** ${answerOf(responses[status] ?? {})}`),
    `**Errors:** ${statuses.filter((status) => errors.has(status)).join(", ")}.`,
  ]
    .filter((part) => part !== "")
    .join("\n\n");
}

/** A body or an answer: what it is, its schema, and what a stream has. */
function answerOf({ description = "", content = {} }: Answer): string {
  const forms = Object.entries(content).map(([type, { schema }]) => {
    if (type === "text/event-stream") return plainText(schema.description ?? "");
    return schema.type === "object" ? "" : `${formOf(schema)}.`;
  });
  const fields = Object.values(content).flatMap(({ schema }) => fieldLines(schema, ""));
  const text = [plainText(description), ...forms].filter((part) => part !== "").join(" ");
  return [text, ...(fields.length > 0 ? ["", ...fields] : [])].join("\n");
}

function schemaParts(schema: Schema): string[] {
  const fields = fieldLines(schema, "");
  return [plainText(schema.description ?? ""), fields.join("\n")].filter((part) => part !== "");
}

/** A line for each field. Fields of an object inside it are indented. */
function fieldLines(schema: Schema, indent: string): string[] {
  if (schema.items) return fieldLines(schema.items, indent);
  if (schema.anyOf) return schema.anyOf.flatMap((one) => fieldLines(one, indent));
  return Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const presence = schema.required?.includes(name) ? "" : "optional";
    const line = indent + item(name, [formOf(field), presence], field);
    return [line].concat(fieldLines(field, `${indent}  `));
  });
}

function item(name: string, facts: readonly string[], { description = "" }: Described): string {
  const known = facts.filter((fact) => fact !== "").join(", ");
  return `- ${code(name)} (${known})${description === "" ? "" : `: ${plainText(description)}`}`;
}

/** The form of a value, in words. */
function formOf(schema: Schema): string {
  const { $ref, anyOf, items, default: value, minimum, maximum } = schema;
  if ($ref !== undefined) {
    const name = $ref.split("/").at(-1) ?? "";
    return `[${name}](#${anchorOf(name)})`;
  }
  const standard = value === undefined ? "" : `, default ${code(value)}`;
  if (anyOf) return anyOf.map(formOf).join(" or ") + standard;
  if (schema.const !== undefined) return code(String(schema.const));
  if (schema.enum) return schema.enum.map(code).join(", ") + standard;
  if (items) return `list${range(schema.minItems, schema.maxItems)}: ${formOf(items)}`;
  const names: Readonly<Record<string, string>> = {
    string: `text${schema.maxLength === undefined ? "" : range(schema.minLength, schema.maxLength, " characters")}`,
    integer: `whole number${range(minimum, maximum)}`,
    number: `number${range(minimum, maximum)}`,
    boolean: "true or false",
  };
  return (names[schema.type ?? ""] ?? schema.type ?? "any value") + standard;
}

function range(least = 0, most = Number.MAX_SAFE_INTEGER, unit = ""): string {
  const ends = [least, most].map((end) => end.toLocaleString("en-US"));
  if (most < Number.MAX_SAFE_INTEGER) return ` of ${ends.join(" to ")}${unit}`;
  return least > 0 ? ` of at least ${ends[0]}${unit}` : "";
}
