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

/** https://docs.mistral.ai/api/endpoint/chat#operation-chat_completion_v1_chat_completions_post */
const fields =
  "model messages temperature top_p max_tokens stream stop random_seed metadata response_format tools tool_choice presence_penalty frequency_penalty n prediction parallel_tool_calls prompt_mode reasoning_effort guardrails safe_prompt".split(
    " ",
  );
const messageFields: Readonly<Record<string, readonly string[]>> = {
  system: ["role", "content"],
  user: ["role", "content"],
  assistant: ["role", "content", "tool_calls", "prefix"],
  tool: ["role", "content", "tool_call_id", "name"],
};
const partFields: Readonly<Record<string, readonly string[]>> = {
  text: ["type", "text"],
  image_url: ["type", "image_url"],
  document_url: ["type", "document_url", "document_name"],
  thinking: ["type", "thinking", "closed"],
  reference: ["type", "reference_ids"],
  file: ["type", "file_id"],
  input_audio: ["type", "input_audio"],
};
const efforts = ["none", "high"];

/**
 * Mistral's API. The order of messages is checked as in mistral-common, `MistralRequestValidator`:
 * https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/protocol/instruct/validator.py
 */
export const mistralServer: StrictServer = {
  name: "Mistral",
  provider: {
    stream_usage: false,
    message_order: "strict",
    drop_fields: ["prompt_cache_key", "verbosity"],
    drop_message_fields: ["reasoning_content", "thinking_blocks", "extra_content", "images"],
  },
  route: { model: "mistral-medium-latest", responses: false },
  settings: {},
  dialect: () => openaiDialect,
  check({ body }) {
    checkFields(body);
    for (const [at, tool] of objects(body["tools"]).entries()) checkTool(tool, at);
    checkOrder(objects(body["messages"]));
    checkCalls(objects(body["messages"]));
  },
  // As BerriAI/litellm#10226 and its like quote it.
  overflow: new Refused(400, {
    object: "error",
    message:
      "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
    type: "invalid_request_prompt",
    param: null,
    code: "3051",
  }),
  callId: (number) => `Call${String(number).padStart(5, "0")}`,
};

type Place = readonly (string | number)[];

/** As editor-code-assistant/eca#231 quotes it. */
function forbidden(loc: Place, input: unknown): Refused {
  return invalid("extra_forbidden", loc, "Extra inputs are not permitted", input);
}

function invalid(type: string, loc: Place, msg: string, input: unknown): Refused {
  const message = { detail: [{ type, loc: ["body", ...loc], msg, input }] };
  return new Refused(422, {
    object: "error",
    message,
    type: "invalid_request_error",
    param: null,
    code: null,
  });
}

/** As BerriAI/litellm#17761 quotes it. */
function disorder(message: string, type = "invalid_request_message_order", code = "3230"): Refused {
  return new Refused(400, { object: "error", message, type, param: null, code });
}

function checkFields(body: Json): void {
  for (const key of unknownKeys(body, fields)) throw forbidden([key], body[key]);
  const effort = body["reasoning_effort"];
  if (effort !== undefined && !efforts.includes(word(effort))) {
    throw invalid("enum", ["reasoning_effort"], "Input should be 'high' or 'none'", effort);
  }
  for (const [at, message] of objects(body["messages"]).entries()) {
    const role = word(message["role"]);
    const known = messageFields[role];
    if (known === undefined) {
      const msg = `Input tag '${role}' found using 'role' does not match any of the expected tags: 'system', 'user', 'assistant', 'tool'`;
      throw invalid("union_tag_invalid", ["messages", at], msg, message);
    }
    for (const key of unknownKeys(message, known)) {
      throw forbidden(["messages", at, role, key], message[key]);
    }
    for (const [index, part] of partsOf(message["content"]).entries()) {
      const type = word(part["type"]);
      const loc = ["messages", at, role, "content", index];
      if (!(type in partFields)) {
        const tags = Object.keys(partFields)
          .map((one) => `'${one}'`)
          .join(", ");
        const msg = `Input tag '${type}' found using 'type' does not match any of the expected tags: ${tags}`;
        throw invalid("union_tag_invalid", loc, msg, part);
      }
      for (const key of unknownKeys(part, partFields[type] ?? []))
        throw forbidden([...loc, type, key], part[key]);
      // As LibreChat-AI/agents#344 quotes it.
      if (role === "tool" && type !== "text") {
        const msg = "Input should be <ChunkTypes.text: 'text'>";
        throw invalid("literal_error", [...loc, "type"], msg, type);
      }
      if (role === "system" && type !== "text" && type !== "thinking") {
        throw invalid("union_tag_invalid", loc, "Input should be a text", part);
      }
    }
    for (const [index, call] of objects(message["tool_calls"]).entries()) {
      for (const key of unknownKeys(call, ["id", "type", "function", "index"])) {
        throw forbidden(["messages", at, "assistant", "tool_calls", index, key], call[key]);
      }
    }
  }
}

function checkTool(tool: Json, at: number): void {
  for (const key of unknownKeys(tool, ["type", "function"]))
    throw forbidden(["tools", at, key], tool[key]);
  const fn = object(tool["function"]);
  for (const key of unknownKeys(fn, ["name", "description", "strict", "parameters"])) {
    throw forbidden(["tools", at, "function", key], fn[key]);
  }
  if (typeof fn["parameters"] !== "object" || fn["parameters"] === null) {
    throw invalid("missing", ["tools", at, "function", "parameters"], "Field required", fn);
  }
  checkName(fn["name"]);
}

function checkName(name: unknown): void {
  if (/^[a-zA-Z0-9_-]{1,64}$/.test(word(name))) return;
  const message = `Function name was ${word(name)} but must be a-z, A-Z, 0-9, or contain underscores and dashes, with a maximum length of 64.`;
  throw disorder(message, "invalid_function_call", "3270");
}

/** What may come after each role. */
const next: Readonly<Record<string, readonly string[]>> = {
  system: ["user", "assistant"],
  user: ["assistant", "user"],
  assistant: ["assistant", "user", "tool"],
  tool: ["assistant", "tool"],
};

function checkOrder(messages: readonly Json[]): void {
  let before: string | undefined;
  for (const { role: own } of messages) {
    const role = word(own);
    if (before !== undefined && !next[before]?.includes(role)) {
      throw disorder(`Unexpected role '${role}' after role '${before}'`);
    }
    if (before === undefined && role === "tool")
      throw disorder("Conversation must start with a user message or system message, got tool");
    before = role;
  }
  const last = messages.at(-1);
  if (last?.["role"] === "assistant" ? last["prefix"] !== true : last?.["role"] === "system") {
    throw disorder(
      `Expected last role User or Tool (or Assistant with prefix True) for serving but got ${word(last?.["role"])}`,
    );
  }
}

function checkCalls(messages: readonly Json[]): void {
  let open: string[] = [];
  for (const message of messages) {
    if (message["role"] === "tool") {
      const id = word(message["tool_call_id"]);
      checkId(id);
      if (!open.includes(id)) throw disorder("Unexpected tool call id " + id + " in tool results");
      open = open.filter((one) => one !== id);
      continue;
    }
    if (open.length > 0) throw disorder("Not the same number of function calls and responses");
    const calls = objects(message["tool_calls"]);
    if (
      message["role"] === "assistant" &&
      calls.length === 0 &&
      partsOf(message["content"] ?? "").every(({ text }) => text === "")
    ) {
      throw disorder(
        "Assistant message must have either content or tool_calls, but not none.",
        "invalid_request_assistant_message",
        "3240",
      );
    }
    for (const { id, function: fn } of calls) {
      checkId(word(id));
      checkName(object(fn)["name"]);
    }
    open = calls.map(({ id }) => word(id));
  }
  if (open.length > 0) throw disorder("Not the same number of function calls and responses");
}

/** As nearai/ironclaw#1241 quotes it. */
function checkId(id: string): void {
  if (/^[a-zA-Z0-9]{9}$/.test(id)) return;
  const message = `Tool call id was ${id} but must be a-z, A-Z, 0-9, with a length of 9.`;
  throw disorder(message, "invalid_function_call", "3280");
}
