import { openaiDialect } from "../../providers/conformance/openaiDialect.ts";
import {
  object,
  objects,
  partsOf,
  Refused,
  unknownKeys,
  type Json,
  type StrictServer,
  word,
} from "./strictServer.ts";

/** https://console.groq.com/docs/api-reference#chat-create */
const fields =
  "citation_options compound_custom disable_tool_validation documents exclude_domains frequency_penalty function_call functions include_domains include_reasoning logit_bias logprobs max_completion_tokens max_tokens messages metadata model n parallel_tool_calls presence_penalty reasoning_effort reasoning_format response_format search_settings seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user".split(
    " ",
  );
const messageFields: Readonly<Record<string, readonly string[]>> = {
  system: ["role", "content", "name"],
  developer: ["role", "content", "name"],
  user: ["role", "content", "name"],
  assistant: [
    "role",
    "content",
    "name",
    "tool_calls",
    "function_call",
    "reasoning",
    "executed_tools",
  ],
  tool: ["role", "content", "tool_call_id", "name"],
};
const partFields: Readonly<Record<string, readonly string[]>> = {
  text: ["type", "text"],
  image_url: ["type", "image_url"],
  document: ["type", "document"],
};
/** Of the gpt-oss models: https://console.groq.com/docs/reasoning */
const efforts = ["low", "medium", "high"];
const TOOLS_MAX = 128;

export const groqServer: StrictServer = {
  name: "Groq",
  provider: {
    max_tokens_field: "max_completion_tokens",
    drop_fields: ["prompt_cache_key", "verbosity"],
    drop_message_fields: ["reasoning_content", "thinking_blocks", "extra_content", "images"],
  },
  route: { model: "openai/gpt-oss-120b", responses: false },
  settings: { max_output_tokens: 65_536 },
  dialect: () => openaiDialect,
  check({ body }) {
    const [unknown] = unknownKeys(body, fields);
    if (unknown !== undefined) throw groqFault(`property '${unknown}' is unsupported`);
    const effort = body["reasoning_effort"];
    if (effort !== undefined && !efforts.includes(word(effort))) {
      throw groqFault("`reasoning_effort` must be one of `low`, `medium`, or `high`");
    }
    checkTools(objects(body["tools"]));
    const format = object(body["response_format"]);
    if (
      format["type"] !== undefined &&
      format["type"] !== "text" &&
      objects(body["tools"]).length > 0
    ) {
      throw groqFault("json mode cannot be combined with tool/function calling");
    }
    for (const [at, message] of objects(body["messages"]).entries()) checkMessage(message, at);
  },
  overflow: groqFault(
    "Please reduce the length of the messages or completion.",
    "messages",
    "context_length_exceeded",
  ),
  callId: (number) => `fc_${String(number).padStart(8, "0")}`,
};

function groqFault(message: string, param?: string, code?: string): Refused {
  const error = {
    message,
    type: "invalid_request_error",
    ...(param && { param }),
    ...(code && { code }),
  };
  return new Refused(400, { error });
}

function checkTools(tools: readonly Json[]): void {
  if (tools.length > TOOLS_MAX)
    throw groqFault(`'tools' : maximum number of items is ${TOOLS_MAX}`);
  for (const [at, tool] of tools.entries()) {
    const [unknown] = unknownKeys(tool, ["type", "function"]);
    if (unknown !== undefined)
      throw groqFault(`'tools.${at}' : property '${unknown}' is unsupported`);
    const fn = object(tool["function"]);
    const [inner] = unknownKeys(fn, ["name", "description", "parameters", "strict"]);
    if (inner !== undefined)
      throw groqFault(`'tools.${at}.function' : property '${inner}' is unsupported`);
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(word(fn["name"]))) {
      throw groqFault(`'tools.${at}.function.name' : must match pattern '^[a-zA-Z0-9_-]{1,64}$'`);
    }
    const parameters = fn["parameters"];
    if (parameters !== undefined && object(parameters)["type"] !== "object") {
      throw groqFault(
        `invalid JSON schema for tool ${word(fn["name"])}, tools[${at}].function.parameters: \`type\` must be "object"`,
      );
    }
  }
}

/** As freellmapi#1070 and NousResearch/hermes-agent#11089 quote it. */
function checkMessage(message: Json, at: number): void {
  const role = word(message["role"]);
  const known = messageFields[role];
  if (known === undefined)
    throw groqFault(`'messages.${at}' : discriminator property 'role' has invalid value`);
  const fault = (what: string) =>
    groqFault(
      `'messages.${at}' : for 'role:${role}' the following must be satisfied[('messages.${at}' : ${what})]`,
    );
  const [unknown] = unknownKeys(message, known);
  if (unknown !== undefined) throw fault(`property '${unknown}' is unsupported`);
  if (role === "tool" && typeof message["tool_call_id"] !== "string")
    throw fault("property 'tool_call_id' is missing");
  const { content } = message;
  if (content === undefined || (content === null && role !== "assistant"))
    throw fault("property 'content' is missing");
  for (const [index, part] of partsOf(content).entries()) {
    const type = word(part["type"]);
    const isPicture = type === "image_url" && role !== "user";
    if (!(type in partFields) || isPicture)
      throw fault(
        `'messages.${at}.content' : one of the following must be satisfied[('messages.${at}.content' : value must be a string) OR ('messages.${at}.content.${index}.type' : value must be one of ["text"])]`,
      );
    const [inner] = unknownKeys(part, partFields[type] ?? []);
    if (inner !== undefined) {
      throw fault(
        `'messages.${at}.content' : one of the following must be satisfied[('messages.${at}.content' : value must be a string) OR ('messages.${at}.content.${index}' : property '${inner}' is unsupported)]`,
      );
    }
  }
}
