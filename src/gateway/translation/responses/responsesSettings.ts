import { parseExactly } from "../../../lib/exactJson.ts";
import { isJsonObject, fieldsOf, type JsonFields } from "../../../lib/json.ts";
import { ENCRYPTED_REASONING, includes, LOGPROBS } from "./responsesToChat.ts";
import { translatedTools, type ToolOrigin } from "./responsesTools.ts";

/** What the answer to a responses request needs of the request. It lives as long as the stream, so it is small. */
export interface ResponsesSettings {
  /** Fields of the request that the response object repeats. */
  readonly repeated: JsonFields;
  readonly origins: ReadonlyMap<string, ToolOrigin>;
  /** The client asked for encrypted reasoning, to send it back. */
  readonly wantsEncrypted: boolean;
  readonly wantsLogprobs: boolean;
}

/** A longer field is not repeated. Metadata has at most 16 pairs of 64 and 512 characters. */
const REPEATED_CHARACTERS_MAX = 16 * 1024;

/**
 * Reads the settings of a checked responses request. The response repeats them in the form of
 * https://platform.openai.com/docs/api-reference/responses/object, except that it has no `instructions` and no `tools`:
 * they may be as large as the body.
 */
export function settingsOf(body: JsonFields): ResponsesSettings {
  const { effort = null, summary = null } = fieldsOf(body["reasoning"]);
  const text = small(body["text"], {});
  return {
    repeated: {
      background: false,
      instructions: null,
      max_output_tokens: body["max_output_tokens"] ?? null,
      max_tool_calls: small(body["max_tool_calls"], null),
      metadata: small(body["metadata"], {}),
      parallel_tool_calls: body["parallel_tool_calls"] !== false,
      previous_response_id: null,
      prompt_cache_key: small(body["prompt_cache_key"], null),
      reasoning: small({ effort, summary }, {}),
      safety_identifier: small(body["safety_identifier"], null),
      service_tier: "default",
      store: false,
      temperature: body["temperature"] ?? null,
      text: isJsonObject(text) ? { format: { type: "text" }, ...text } : {},
      tool_choice: small(body["tool_choice"], "auto"),
      tools: [],
      top_logprobs: small(body["top_logprobs"], 0),
      top_p: body["top_p"] ?? null,
      truncation: small(body["truncation"], "disabled"),
      user: small(body["user"], null),
    },
    origins: translatedTools(body).origins,
    wantsEncrypted: includes(body, ENCRYPTED_REASONING),
    wantsLogprobs: includes(body, LOGPROBS),
  };
}

/** Settings in a form that a message to a Worker can have: numbers keep their digits. */
export type WrittenSettings = Omit<ResponsesSettings, "repeated"> & { readonly repeated: string };

export function writeSettings(settings: ResponsesSettings): WrittenSettings {
  return { ...settings, repeated: JSON.stringify(settings.repeated) };
}

export function readSettings(written: WrittenSettings): ResponsesSettings {
  return { ...written, repeated: fieldsOf(parseExactly(written.repeated)) };
}

/** The value if it is given and short. */
function small(value: unknown, otherwise: unknown): unknown {
  if (value === undefined || value === null) return otherwise;
  return JSON.stringify(value).length > REPEATED_CHARACTERS_MAX ? otherwise : value;
}
