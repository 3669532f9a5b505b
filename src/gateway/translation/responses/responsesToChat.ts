import { COMPARISON_RESPONSE_FIELD } from "../../../contract/keyCase.ts";
import {
  fieldsOf,
  isDeeperThan,
  isJsonObject,
  type JsonFields,
  isGiven,
} from "../../../lib/json.ts";
import { DEPTH_MAX, UnsupportedRequestError, unsupported } from "../../../providers/provider.ts";
import { messagesOf } from "./responsesInput.ts";
import { translatedToolChoice, translatedTools } from "./responsesTools.ts";

/** Asks for token probabilities. */
export const LOGPROBS = "message.output_text.logprobs";
/** Asks for what a client without stored responses sends back with its next request. */
export const ENCRYPTED_REASONING = "reasoning.encrypted_content";

/** Fields of the same name and meaning in both interfaces. */
const SHARED_FIELDS = [
  "model",
  "stream",
  "temperature",
  "top_p",
  "user",
  "safety_identifier",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "service_tier",
  "moderation",
];

/** Fields without a counterpart that change the meaning of the request. */
const UNSUPPORTED_FIELDS = ["conversation", "prompt", "context_management"];

/**
 * Fields that are translated, and fields that have no effect here: those for tools of the provider, for responses that
 * are kept, and for the client's own records. Fields that are in no list are forwarded.
 */
const OTHER_FIELDS: ReadonlySet<string> = new Set([
  ...SHARED_FIELDS,
  ...UNSUPPORTED_FIELDS,
  "access_programs",
  "background",
  "client_metadata",
  "image",
  "include",
  "input",
  "instructions",
  "max_completion_tokens",
  "max_output_tokens",
  "max_tokens",
  "max_tool_calls",
  "messages",
  "metadata",
  "n",
  "parallel_tool_calls",
  "previous_response_id",
  "reasoning",
  "response_format",
  "store",
  "stream_options",
  "text",
  "tool_choice",
  "tools",
  "top_logprobs",
  "truncation",
]);

const TRUNCATIONS: ReadonlySet<unknown> = new Set(["auto", "disabled"]);

/** An effort above those of a chat, which Codex has. */
const HIGHEST_EFFORT = "ultra";

/**
 * The body of POST /v1/chat/completions for a checked body of POST /v1/responses that needs no stored response. Throws
 * UnsupportedRequestError for what has no counterpart and changes the meaning. Custom tools and tools of the local shell
 * become functions; the answer turns their calls back.
 */
export function chatBodyOf(body: JsonFields): JsonFields {
  if (isDeeperThan(body, DEPTH_MAX)) {
    throw new UnsupportedRequestError("the request is nested too deep");
  }
  refuseStoredState(body);
  refuseUnsupported(body);
  const { definitions } = translatedTools(body);
  const hasTools = definitions.length > 0;
  const toolChoice = translatedToolChoice(body["tool_choice"]);
  if (!hasTools && toolChoice === "required") throw unsupported("tool_choice");
  const { effort, summary, generate_summary: oldSummary } = fieldsOf(body["reasoning"]);
  const { format, verbosity } = fieldsOf(body["text"]);
  const wantsLogprobs = includes(body, LOGPROBS);
  const fields: Record<string, unknown> = {
    messages: messagesOf(body),
    max_completion_tokens: body["max_output_tokens"],
    reasoning_effort: effort === HIGHEST_EFFORT ? "max" : effort,
    reasoningSummary: summaryOf(summary ?? oldSummary),
    response_format: formatOf(format),
    verbosity,
    logprobs: wantsLogprobs ? true : undefined,
    top_logprobs: wantsLogprobs ? body["top_logprobs"] : undefined,
    // OpenAI refuses both without tools.
    tools: hasTools ? definitions : undefined,
    tool_choice: hasTools ? toolChoice : undefined,
    parallel_tool_calls: hasTools ? body["parallel_tool_calls"] : undefined,
  };
  for (const name of SHARED_FIELDS) fields[name] = body[name];
  const others = Object.entries(body).filter(([name]) => !OTHER_FIELDS.has(name));
  const given = Object.entries(fields).filter(([, value]) => isGiven(value));
  return Object.fromEntries([...others, ...given]);
}

/** Whether a request asks for an extra part of the answer. */
export function includes({ include }: JsonFields, name: string): boolean {
  return Array.isArray(include) && include.includes(name);
}

/**
 * Throws UnsupportedRequestError if the request needs a response that is kept, or asks to keep its own. A request that does
 * not say so is answered all the same: most clients leave the field out and never name the response again.
 */
function refuseStoredState(body: JsonFields): void {
  if (isGiven(body["previous_response_id"])) {
    throw new UnsupportedRequestError(
      "previous_response_id is not supported: this model does not keep responses, send the whole conversation as input",
    );
  }
  if (isGiven(body["store"]) && body["store"] !== false) {
    throw new UnsupportedRequestError("this model does not keep responses: set store to false");
  }
}

function refuseUnsupported(body: JsonFields): void {
  const field = UNSUPPORTED_FIELDS.find((name) => isGiven(body[name]));
  if (field !== undefined) throw unsupported(field);
  if (isGiven(body["n"]) && body["n"] !== 1) throw unsupported("n");
  const { truncation, prompt_cache_options: cache } = body;
  if (isGiven(truncation) && !TRUNCATIONS.has(truncation)) throw unsupported("truncation");
  if (isGiven(fieldsOf(cache)[COMPARISON_RESPONSE_FIELD])) {
    throw unsupported(`prompt_cache_options.${COMPARISON_RESPONSE_FIELD}`);
  }
}

function summaryOf(summary: unknown): unknown {
  if (summary === "none") return undefined;
  return summary === "detailed" ? "detail" : summary;
}

/** https://platform.openai.com/docs/guides/structured-outputs; the chat form is one level deeper. */
function formatOf(format: unknown): JsonFields | undefined {
  if (!isGiven(format)) return undefined;
  if (!isJsonObject(format)) throw unsupported("text.format");
  const { type, ...schema } = format;
  if (type === "text") return undefined;
  if (type === "json_object") return { type };
  if (type === "json_schema") return { type, json_schema: schema };
  throw unsupported("text.format");
}
