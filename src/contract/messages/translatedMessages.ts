import { Type, type TSchema } from "@sinclair/typebox";
import { isNumber } from "../../lib/exactJson.ts";
import type { JsonFields } from "../../lib/json.ts";
import { nullable, oneOf } from "../requestFields.ts";
import { type Annotations, validationMessage } from "../validationMessage.ts";

/** The gateway may keep the sequences in memory until the answer ends. */
const STOP_CHARACTERS_MAX = 1024;

/** Each of them is searched for in each answer. */
const STOPS_MAX = 32;

/** A required text that is not empty. */
const name = Type.String({ minLength: 1 });
const text = Type.String();
const optionalText = nullable(text, "");
const anObject = Type.Object({});

type Annotated = Annotations & Record<string, unknown>;

/** An object whose other members depend on its `type`. One of another type is left to the translation, which refuses it. */
function byType(schemas: Readonly<Record<string, TSchema>>) {
  const problem = (value: object, path: string): string | undefined => {
    const { type } = value as JsonFields;
    const schema =
      typeof type === "string" && Object.hasOwn(schemas, type) ? schemas[type] : undefined;
    return schema && validationMessage(schema, value, path);
  };
  return Type.Object({ type: text }, { problem } satisfies Annotated);
}

const addressSource = Type.Object({ url: name });
const dataSource = Type.Object({ media_type: name, data: text });

const blockSchemas: Record<string, TSchema> = {};
const blocks = Type.Array(byType(blockSchemas), {
  described: "an array of blocks",
} satisfies Annotated);
const content = Type.Union([text, blocks]);

Object.assign(blockSchemas, {
  text: Type.Object({ text }),
  image: Type.Object({ source: byType({ url: addressSource, base64: dataSource }) }),
  document: Type.Object({
    source: byType({
      url: addressSource,
      base64: dataSource,
      text: Type.Object({ data: text }),
      content: Type.Object({ content }),
    }),
    title: optionalText,
    context: optionalText,
  }),
  search_result: Type.Object({ title: text, source: text, content: blocks }),
  tool_reference: Type.Object({ tool_name: name }),
  thinking: Type.Object({ thinking: text }),
  tool_use: Type.Object({ id: name, name, input: nullable(anObject, "") }),
  tool_result: Type.Object({
    tool_use_id: name,
    content: nullable(content, ""),
    is_error: nullable(Type.Boolean(), ""),
  }),
} satisfies Record<string, TSchema>);

/** A tool of the client. Those that Anthropic knows by their type are refused as a whole. */
const customTool = Type.Object({
  name,
  description: optionalText,
  input_schema: nullable(anObject, ""),
  strict: nullable(Type.Boolean(), ""),
});
const tool = Type.Object({ type: optionalText }, {
  problem: (value, path) =>
    ((value as JsonFields)["type"] ?? "custom") === "custom"
      ? validationMessage(customTool, value, path)
      : undefined,
} satisfies Annotated);

const format = nullable(byType({ json_schema: Type.Object({ schema: anObject }) }), "");

/**
 * The members of a body of POST /v1/messages that a translation reads. A provider of kind anthropic checks the body
 * itself.
 */
const TranslatedMessages = Type.Object({
  system: nullable(content, ""),
  messages: Type.Array(Type.Object({ content })),
  tools: nullable(Type.Array(tool, { described: "an array of tools" } satisfies Annotated), ""),
  tool_choice: nullable(byType({ tool: Type.Object({ name }) }), ""),
  stop_sequences: nullable(
    Type.Array(Type.String({ minLength: 1, maxLength: STOP_CHARACTERS_MAX }), {
      maxItems: STOPS_MAX,
      described: "an array of strings",
    } satisfies Annotated),
    "",
  ),
  thinking: nullable(
    Type.Object({ type: oneOf(["enabled", "adaptive", "disabled"]) }, {
      problem: budgetProblem,
    } satisfies Annotated),
    "",
  ),
  output_config: nullable(
    Type.Object({
      effort: nullable(oneOf(["low", "medium", "high", "xhigh", "max"]), ""),
      format,
    }),
    "",
  ),
  // The name in an earlier beta.
  output_format: format,
  mcp_servers: nullable(Type.Array(anObject), ""),
});

/** A number with many digits is no plain number in a text that was read exactly. */
function budgetProblem(thinking: object, path: string): string | undefined {
  const { type, budget_tokens: budget } = thinking as JsonFields;
  if (type !== "enabled" || isNumber(budget)) return undefined;
  return budget === undefined
    ? `${path}.budget_tokens is required`
    : `${path}.budget_tokens must be an integer`;
}

/**
 * The first problem of the members that a translation of a message to a chat reads; undefined if there is none. The body
 * is one that `checkMessagesRequest` accepts.
 */
export function translatedMessagesProblem(body: JsonFields): string | undefined {
  return validationMessage(TranslatedMessages, body);
}
