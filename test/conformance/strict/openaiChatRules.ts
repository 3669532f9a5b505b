import {
  checkBound,
  checkEffort,
  checkFormat,
  checkFunction,
  checkPicture,
  checkToolCount,
  openaiFault,
  unknownParameter,
  unsupportedParameter,
} from "./openaiFaults.ts";
import { object, objects, partsOf, unknownKeys, type Json, word } from "./strictServer.ts";

/** https://platform.openai.com/docs/api-reference/chat/create */
const fields =
  "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens max_tokens messages metadata modalities model moderation n parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_options prompt_cache_retention reasoning_effort response_format safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user verbosity web_search_options".split(
    " ",
  );
/** https://developers.openai.com/api/docs/guides/reasoning: what reasoning models do not take. */
const notWithReasoning = [
  "top_p",
  "stop",
  "presence_penalty",
  "frequency_penalty",
  "logprobs",
  "logit_bias",
];

/** Chat completions of OpenAI's reasoning models. Models from gpt-5.4 on take no effort beside tools there. */
export function checkOpenaiChat(body: Json, takesEffortWithTools: boolean): void {
  const [unknown] = unknownKeys(body, fields);
  if (unknown !== undefined) throw unknownParameter(unknown);
  checkSettings(body);
  const tools = objects(body["tools"]);
  if (Array.isArray(body["tools"]) && tools.length === 0) {
    const message =
      "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.";
    throw openaiFault(message, "tools", "empty_array");
  }
  for (const [at, tool] of tools.entries()) {
    if (tool["type"] !== "function" && tool["type"] !== "custom") {
      const path = `tools[${at}].type`;
      const message = `Invalid value: '${word(tool["type"])}'. Supported values are: 'function' and 'custom'.`;
      throw openaiFault(message, path, "invalid_value");
    }
    const fn = object(tool["function"]);
    if (tool["type"] === "function")
      checkFunction(fn, `tools[${at}].function`, fn["strict"] === true);
  }
  if (tools.length === 0) {
    for (const name of ["tool_choice", "parallel_tool_calls"]) {
      if (name in body)
        throw openaiFault(
          `Invalid value for '${name}': '${name}' is only allowed when 'tools' are specified.`,
          name,
        );
    }
  }
  const effort = body["reasoning_effort"] ?? "medium";
  if (
    !takesEffortWithTools &&
    tools.length > 0 &&
    "reasoning_effort" in body &&
    effort !== "none"
  ) {
    const message =
      "Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.";
    throw openaiFault(message, "reasoning_effort");
  }
  checkMessages(objects(body["messages"]));
}

function checkSettings(body: Json): void {
  if ("max_tokens" in body) {
    throw unsupportedParameter("max_tokens", " Use 'max_completion_tokens' instead.");
  }
  checkBound(body["max_completion_tokens"], "max_completion_tokens");
  const { temperature = 1 } = body;
  if (temperature !== 1 && temperature !== null) {
    const message = `Unsupported value: 'temperature' does not support ${word(temperature)} with this model. Only the default (1) value is supported.`;
    throw openaiFault(message, "temperature", "unsupported_value");
  }
  const unsupported = notWithReasoning.find((name) => name in body && body[name] !== null);
  if (unsupported !== undefined) throw unsupportedParameter(unsupported);
  checkEffort(body["reasoning_effort"], "reasoning_effort");
  checkToolCount(body["tools"]);
  if ("stream_options" in body && body["stream"] !== true) {
    throw openaiFault(
      "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
      "stream_options",
    );
  }
  const format = object(body["response_format"]);
  if (format["type"] === "json_schema") {
    checkFormat(object(format["json_schema"]), "response_format.json_schema");
  }
  if (format["type"] === "json_object" && !/json/i.test(JSON.stringify(body["messages"]))) {
    throw openaiFault(
      "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.",
      "messages",
    );
  }
}

const roles = ["system", "assistant", "user", "function", "tool", "developer"];
const contentTypes: Readonly<Record<string, readonly string[]>> = {
  user: ["text", "image_url", "input_audio", "file"],
  assistant: ["text", "refusal"],
  system: ["text"],
  developer: ["text"],
  tool: ["text"],
};

function checkMessages(messages: readonly Json[]): void {
  let open: string[] = [];
  for (const [at, message] of messages.entries()) {
    const role = word(message["role"]);
    if (!roles.includes(role)) {
      const supported = roles.map((one) => `'${one}'`).join(", ");
      const fault = `Invalid value: '${role}'. Supported values are: ${supported}.`;
      throw openaiFault(fault, `messages[${at}].role`, "invalid_value");
    }
    checkContent(message, role, at);
    if (role === "tool") {
      const id = word(message["tool_call_id"]);
      if (!open.includes(id)) {
        const fault =
          "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.";
        throw openaiFault(fault, `messages.[${at}].role`);
      }
      open = open.filter((one) => one !== id);
      continue;
    }
    checkAnswered(open, at);
    open = objects(message["tool_calls"]).map(({ id }) => word(id));
    for (const [index, call] of objects(message["tool_calls"]).entries())
      checkCall(call, at, index);
  }
  checkAnswered(open, messages.length);
}

function checkAnswered(open: readonly string[], at: number): void {
  if (open.length === 0) return;
  const fault = `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${open.join(", ")}`;
  throw openaiFault(fault, `messages.[${at}].role`);
}

function checkCall(call: Json, at: number, index: number): void {
  const path = `messages[${at}].tool_calls[${index}]`;
  const fn = object(call["function"]);
  if (typeof call["id"] !== "string" || call["id"].length > 64) {
    throw openaiFault(
      `Invalid '${path}.id': string too long. Expected a string with maximum length 64.`,
      `${path}.id`,
      "string_above_max_length",
    );
  }
  if (typeof fn["arguments"] !== "string") {
    throw openaiFault(
      `Invalid type for '${path}.function.arguments': expected a string, but got an object instead.`,
      `${path}.function.arguments`,
      "invalid_type",
    );
  }
  checkFunction({ name: fn["name"] }, `${path}.function`, false);
}

function checkContent(message: Json, role: string, at: number): void {
  const { content } = message;
  const isCall = objects(message["tool_calls"]).length > 0;
  if ((content === null || content === undefined) && !isCall && role !== "assistant") {
    throw openaiFault(
      `Invalid value for 'content': expected a string, got null.`,
      `messages.[${at}].content`,
    );
  }
  for (const [index, part] of partsOf(content).entries()) {
    const type = word(part["type"]);
    if (type === "image_url" && role !== "user") {
      const fault = `Invalid 'messages[${at}]'. Image URLs are only allowed for messages with role 'user', but this message with role '${role}' contains an image URL.`;
      throw openaiFault(fault, `messages[${at}]`, "invalid_value");
    }
    const supported = contentTypes[role] ?? ["text"];
    if (!supported.includes(type)) {
      const fault = `Invalid value: '${type}'. Supported values are: ${supported.map((one) => `'${one}'`).join(", ")}.`;
      throw openaiFault(fault, `messages[${at}].content[${index}].type`, "invalid_value");
    }
    checkPicture(object(part["image_url"])["url"]);
  }
}
