import type { ChatRequest } from "../../contract/chat.ts";
import type { ChatRequestBody } from "../../contract/chatRequestBody.ts";
import { COMPARED_RESPONSE } from "../../contract/keyCase.ts";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";
import { bodyWithOthers, isGiven, refuseOtherAnswers } from "../chat/chatFields.ts";
import { unfit } from "../chat/chatParts.ts";
import { formatOf, NO_PARAMETERS } from "../chat/chatTools.ts";
import { inputOf } from "./openaiResponsesInput.ts";
import type { ChatCall, EncodedRequest } from "../provider.ts";

/** Fields of the same name and meaning in both interfaces. */
const SHARED_FIELDS = [
  "temperature",
  "top_p",
  "parallel_tool_calls",
  "metadata",
  "user",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "service_tier",
  "moderation",
];

/** What asks for the probabilities of tokens; without it `top_logprobs` alone brings none. */
const LOGPROBS = "message.output_text.logprobs";

/** Fields of the convention without a counterpart, and without which a request means something else. */
const UNFIT_FIELDS = ["functions", "function_call"];

/**
 * What takes up something from the provider's store. In a chat nobody asks whose it is, so it goes no
 * further: it could be another account's.
 */
const STORED_OBJECT_FIELDS = ["previous_response_id", "conversation", "prompt"];

/**
 * A chat as a responses request: https://platform.openai.com/docs/api-reference/responses/create.
 * Throws UnfitError. Numbers beyond a double lose digits in what is put together anew: in schemas.
 */
export function encodeChat(call: ChatCall): EncodedRequest {
  const { object, request } = call;
  const body: ChatRequestBody & JsonFields = request.body;
  refuseUnfit(body, request);
  const fields: Record<string, unknown> = {
    model: call.model,
    input: inputOf(body.messages),
    stream: request.stream || undefined,
    stream_options: request.stream ? streamOptionsOf(body) : undefined,
    // Fewer than 16 are the caller's mistake here, and the provider says so.
    max_output_tokens: call.outputTokensBound,
    reasoning: reasoningOf(body),
    text: textOf(body),
    tools: isGiven(body["tools"]) ? flatTools(body["tools"]) : undefined,
    tool_choice: isGiven(body["tool_choice"]) ? flatToolChoice(body["tool_choice"]) : undefined,
    top_logprobs:
      body["logprobs"] === true || isGiven(body["include"]) ? body["top_logprobs"] : undefined,
    include: body["logprobs"] === true ? includedWithLogprobs(body["include"]) : undefined,
    // Unless told otherwise the provider keeps every response for a month, and hands it out by an id that
    // a chat's client never learns: it could neither use it nor have it deleted. The reasoning need not
    // come back encrypted either: each chat brings all that it builds on.
    store: false,
  };
  for (const name of SHARED_FIELDS) fields[name] = body[name] ?? undefined;
  return { path: "/responses", body: bodyWithOthers(object, fields) };
}

function refuseUnfit(body: JsonFields, { choiceCount, stop }: ChatRequest): void {
  if (choiceCount > 1) throw unfit("n");
  // The gateway ends the text at a stop sequence, and could not tell which tokens that leaves.
  if (body["logprobs"] === true && stop.length > 0) throw unfit("logprobs with stop");
  refuseOtherAnswers(body);
  const { instructions } = body;
  // As a list of items it could name stored ones.
  if (isGiven(instructions) && typeof instructions !== "string") {
    throw unfit("instructions");
  }
  const { prompt_cache_options: options } = body;
  if (isJsonObject(options) && isGiven(options[COMPARED_RESPONSE])) {
    throw unfit(`prompt_cache_options.${COMPARED_RESPONSE}`);
  }
  const field = [...UNFIT_FIELDS, ...STORED_OBJECT_FIELDS].find((name) => isGiven(body[name]));
  if (field !== undefined) throw unfit(field);
}

/** The caller may include more, in the interface's own words. */
function includedWithLogprobs(own: unknown): readonly unknown[] {
  if (!isGiven(own)) return [LOGPROBS];
  if (!Array.isArray(own)) throw unfit("include");
  return own.includes(LOGPROBS) ? own : [...(own as unknown[]), LOGPROBS];
}

/** Usage is on the last event always; only how the stream is padded can be asked for. */
function streamOptionsOf(body: JsonFields): object | undefined {
  const padding = fieldsOf(body["stream_options"])["include_obfuscation"];
  return typeof padding === "boolean" ? { include_obfuscation: padding } : undefined;
}

/** The caller's own `reasoning`, as who knows the interface writes it, with the convention's fields on top. */
function reasoningOf(body: ChatRequestBody & JsonFields): object | undefined {
  const { reasoning_effort: effort, reasoningSummary } = body;
  const summary = reasoningSummary === "detail" ? "detailed" : reasoningSummary;
  return withOwn(body["reasoning"], { effort, summary });
}

function textOf(body: ChatRequestBody & JsonFields): object | undefined {
  const format = formatOf(body);
  const schema =
    format?.kind === "schema"
      ? {
          type: "json_schema",
          name: format.name,
          description: format.description,
          schema: format.schema,
          strict: format.strict,
        }
      : undefined;
  const type = format?.kind === "json" ? { type: "json_object" } : schema;
  return withOwn(body["text"], { format: type, verbosity: body.verbosity });
}

/** What the caller wrote under the interface's own name, with ours put over it; undefined where there is neither. */
function withOwn(own: unknown, ours: JsonFields): object | undefined {
  const entries = Object.entries(ours).filter(([, value]) => isGiven(value));
  if (entries.length === 0) return isJsonObject(own) ? own : undefined;
  return { ...fieldsOf(own), ...Object.fromEntries(entries) };
}

function flatTools(tools: unknown): readonly unknown[] {
  if (!Array.isArray(tools)) throw unfit("tools");
  return tools.map((tool: unknown, index) => toolOf(tool, `tools[${index}]`));
}

/** Definitions of functions and custom tools lie flat here; any other tool is of the provider's own, and passes. */
function toolOf(tool: unknown, path: string): unknown {
  if (!isJsonObject(tool)) throw unfit(path);
  const { type, function: called, custom } = tool;
  if (type === "function" && isJsonObject(called)) {
    const { name, description, parameters, strict } = called;
    return {
      type,
      name,
      description,
      parameters: parameters ?? NO_PARAMETERS,
      // Here functions are strict unless told otherwise, and their schemas then must be of a certain kind.
      strict: strict ?? false,
    };
  }
  if (type === "custom" && isJsonObject(custom)) {
    const { name, description, format } = custom;
    return { type, name, description, format: inputFormatOf(format) };
  }
  return tool;
}

function inputFormatOf(format: unknown): unknown {
  if (!isJsonObject(format) || !isJsonObject(format["grammar"])) return format ?? undefined;
  const { syntax, definition } = format["grammar"];
  return { type: format["type"], syntax, definition };
}

function flatToolChoice(choice: unknown): unknown {
  if (typeof choice === "string") return choice;
  if (!isJsonObject(choice)) throw unfit("tool_choice");
  const { type } = choice;
  const allowed = choice["allowed_tools"];
  if (type === "allowed_tools" && isJsonObject(allowed)) {
    const { mode, tools } = allowed;
    if (!Array.isArray(tools)) throw unfit("tool_choice");
    return { type, mode, tools: tools.map(namedTool) };
  }
  return namedTool(choice);
}

/** A tool by its name, which the convention puts one level deeper. */
function namedTool(tool: unknown): unknown {
  if (!isJsonObject(tool)) throw unfit("tool_choice");
  const { type } = tool;
  const named = type === "function" || type === "custom" ? tool[type] : undefined;
  return isJsonObject(named) ? { type, name: named["name"] } : tool;
}
