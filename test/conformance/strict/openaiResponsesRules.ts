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
import { object, objects, partsOf, Refused, unknownKeys, type Json, word } from "./strictServer.ts";

/** https://platform.openai.com/docs/api-reference/responses/create. Codex also sends `client_metadata`. */
const fields =
  "background client_metadata context_management conversation include input instructions max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls previous_response_id prompt prompt_cache_key prompt_cache_options prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature text tool_choice tools top_logprobs top_p truncation user".split(
    " ",
  );
const toolTypes =
  "function custom namespace tool_search web_search web_search_preview file_search computer computer_use_preview mcp code_interpreter image_generation local_shell shell apply_patch".split(
    " ",
  );
/** The content of messages, by the one who speaks. */
const contentTypes: Readonly<Record<string, readonly string[]>> = {
  assistant: ["output_text", "refusal"],
  user: ["input_text", "input_image", "input_file"],
  system: ["input_text", "input_image", "input_file"],
  developer: ["input_text", "input_image", "input_file"],
};
/** Ids of items begin with these letters. */
const prefixes: Readonly<Record<string, string>> = {
  message: "msg",
  reasoning: "rs",
  function_call: "fc",
};

/** Responses of OpenAI's reasoning models. */
export function checkOpenaiResponses(body: Json): void {
  const [unknown] = unknownKeys(body, fields);
  if (unknown !== undefined) throw unknownParameter(unknown);
  for (const name of ["temperature", "top_p", "top_logprobs"]) {
    if (name in body && body[name] !== null && body[name] !== 1) throw unsupportedParameter(name);
  }
  checkBound(body["max_output_tokens"], "max_output_tokens");
  checkEffort(object(body["reasoning"])["effort"], "reasoning.effort");
  checkToolCount(body["tools"]);
  for (const [at, tool] of objects(body["tools"]).entries()) checkTool(tool, `tools[${at}]`);
  const format = object(object(body["text"])["format"]);
  if (format["type"] === "json_schema") checkFormat(format, "text.format");
  if (typeof body["input"] !== "string") checkItems(objects(body["input"]));
}

function checkTool(tool: Json, path: string): void {
  const type = word(tool["type"]);
  if (!toolTypes.some((known) => type === known || type.startsWith(`${known}_20`))) {
    const supported = toolTypes.map((one) => `'${one}'`).join(", ");
    throw openaiFault(
      `Invalid value: '${type}'. Supported values are: ${supported}.`,
      path,
      "invalid_value",
    );
  }
  if (type === "namespace") {
    for (const [at, inner] of objects(tool["tools"]).entries())
      checkTool(inner, `${path}.tools[${at}]`);
  }
  if (type !== "function") return;
  if (tool["name"] === undefined) {
    throw openaiFault(
      `Missing required parameter: '${path}.name'.`,
      `${path}.name`,
      "missing_required_parameter",
    );
  }
  checkFunction(tool, path, tool["strict"] === true);
}

function checkItems(items: readonly Json[]): void {
  const calls = new Set<string>();
  const results = new Set<string>();
  for (const [at, item] of items.entries()) {
    const { type = "message", role } = item as { type?: string; role?: string };
    const path = `input[${at}]`;
    checkId(item, type, path);
    if (type === "message") checkMessage(item, word(role), path);
    const callId = word(item["call_id"]);
    if (type === "function_call" || type === "custom_tool_call") {
      calls.add(callId);
      checkFunction({ name: item["name"] }, path, false);
    }
    if (type === "function_call_output" || type === "custom_tool_call_output") {
      if (!calls.has(callId)) {
        throw openaiFault(
          `No tool call found for function call output with call_id ${callId}.`,
          "input",
        );
      }
      results.add(callId);
      for (const part of partsOf(item["output"])) checkPicture(part["image_url"]);
    }
    if (type === "reasoning" && item["encrypted_content"] !== undefined) checkReasoning(item);
  }
  const open = [...calls].find((id) => !results.has(id));
  if (open !== undefined)
    throw openaiFault(`No tool output found for function call ${open}.`, "input");
}

function checkId({ id, encrypted_content: encrypted }: Json, type: string, path: string): void {
  if (id === undefined || id === null) return;
  const prefix = prefixes[type];
  if (prefix !== undefined && !word(id).startsWith(prefix)) {
    const message = `Invalid '${path}.id': '${word(id)}'. Expected an ID that begins with '${prefix}'.`;
    throw openaiFault(message, `${path}.id`, "invalid_value");
  }
  if (type === "reasoning" && (encrypted === undefined || encrypted === null)) {
    const message = `Item with id '${word(id)}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`;
    throw new Refused(404, {
      error: { message, type: "invalid_request_error", param: "input", code: null },
    });
  }
}

/** What OpenAI encrypted begins with the version of its tokens. */
function checkReasoning({ encrypted_content: encrypted }: Json): void {
  if (encrypted === null || word(encrypted).startsWith("gAAAA")) return;
  const message = `The encrypted content ${word(encrypted).slice(0, 8)}... could not be verified. Reason: Encrypted content could not be decrypted or parsed.`;
  throw openaiFault(message, null, "invalid_encrypted_content");
}

function checkMessage({ content }: Json, role: string, path: string): void {
  const supported = contentTypes[role];
  if (supported === undefined) {
    const message = `Invalid value: '${role}'. Supported values are: 'assistant', 'system', 'developer', and 'user'.`;
    throw openaiFault(message, `${path}.role`, "invalid_value");
  }
  if (typeof content === "string") return;
  for (const [at, part] of objects(content).entries()) {
    if (!supported.includes(word(part["type"]))) {
      const names = supported.map((one) => `'${one}'`).join(", ");
      const message = `Invalid value: '${word(part["type"])}'. Supported values are: ${names}.`;
      throw openaiFault(message, `${path}.content[${at}].type`, "invalid_value");
    }
    checkPicture(part["image_url"]);
  }
}
