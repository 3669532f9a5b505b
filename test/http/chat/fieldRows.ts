import { noPrice, uncounted, unsold } from "../../support/gateway/noPrice.ts";
import { ask } from "../../support/gateway/chatCalls.ts";

const message = { role: "user", content: "hello" };
const accepted = undefined;

/** A body, and the message of its 400; undefined where it is served. */
export type FieldRow = readonly [body: unknown, message: string | undefined];

/** The fields of the request's table below, at and above their limits. */
export const fields: readonly FieldRow[] = [
  [{ messages: [message] }, "model is required"],
  [ask({ model: null }), "model must be a string"],
  [ask({ model: 5 }), "model must be a string"],
  [ask({ model: "" }), "model must not be empty"],
  [{ model: "small" }, "messages is required"],
  [ask({ messages: [] }), "messages must contain at least 1 item"],
  [ask({ messages: {} }), "messages must be an array"],
  [ask({ messages: [message, "x"] }), "messages[1] must be an object"],
  [ask({ messages: [{ content: "x" }] }), "messages[0].role is required"],
  [
    ask({ messages: [{ role: "robot", content: "x" }] }),
    "messages[0].role must be one of: system, user, assistant, developer, tool",
  ],
  [ask({ messages: [message, { role: "user" }] }), "messages[1].content is required"],
  ...["system", "user", "assistant", "developer", "tool"].map(
    (role) => [ask({ messages: [{ role, content: "" }] }), accepted] as const,
  ),
  [ask({ stream: "true" }), "stream must be a boolean"],
  [ask({ stream: null }), accepted],
  [ask({ max_tokens: 0 }), "max_tokens must be at least 1"],
  [ask({ max_tokens: -1 }), "max_tokens must be at least 1"],
  [ask({ max_tokens: 1 }), accepted],
  [ask({ max_tokens: 1.5 }), "max_tokens must be an integer"],
  [ask({ max_tokens: "5" }), "max_tokens must be an integer"],
  [ask({ max_tokens: true }), "max_tokens must be an integer"],
  [ask({ max_tokens: null }), accepted],
  ...["low", "medium", "high", "xhigh"].map(
    (effort) => [ask({ reasoning_effort: effort }), accepted] as const,
  ),
  [ask({ reasoning_effort: "none" }), "reasoning_effort must be one of: low, medium, high, xhigh"],
  [ask({ verbosity: "low" }), accepted],
  [ask({ verbosity: "xhigh" }), "verbosity must be one of: low, medium, high"],
  [ask({ reasoningSummary: "concise" }), accepted],
  [ask({ reasoningSummary: "detailed" }), "reasoningSummary must be one of: auto, detail, concise"],
  [ask({ temperature: -0.1 }), "temperature must be between 0 and 2"],
  [ask({ temperature: 0 }), accepted],
  [ask({ temperature: 2 }), accepted],
  [ask({ temperature: 2.0000001 }), "temperature must be between 0 and 2"],
  [ask({ temperature: "1" }), "temperature must be a number"],
  [ask({ top_p: -0.1 }), "top_p must be between 0 and 1"],
  [ask({ top_p: 0 }), accepted],
  [ask({ top_p: 1 }), accepted],
  [ask({ top_p: 1.1 }), "top_p must be between 0 and 1"],
  [ask({ stop: "." }), accepted],
  [ask({ stop: "" }), "stop must not be empty"],
  [ask({ stop: [] }), "stop must contain 1 to 4 items"],
  [ask({ stop: ["a"] }), accepted],
  [ask({ stop: ["a", "b", "c", "d"] }), accepted],
  [ask({ stop: ["a", "b", "c", "d", "e"] }), "stop must contain 1 to 4 items"],
  [ask({ stop: ["a", 1] }), "stop[1] must be a string"],
  [ask({ stop: 5 }), "stop must be a string or an array of strings"],
  [ask({ Model: "dear" }), "Model is not supported"],
  [ask({ max_tokens: 1, Max_Tokens: 4000 }), "Max_Tokens is not supported"],
  [ask({ "max_to\u212aens": 4000 }), "max_to\u212aens is not supported"],
];

/** Fields that only `forward` accepts. */
export const openFields: readonly FieldRow[] = [
  [ask({ n: 0 }), "n must be between 1 and 8"],
  [ask({ n: 8 }), accepted],
  [ask({ n: 9 }), "n must be between 1 and 8"],
  [ask({ max_completion_tokens: 0 }), "max_completion_tokens must be at least 1"],
  [ask({ max_output_tokens: "1" }), "max_output_tokens must be an integer"],
  [
    ask({ max_tokens: 1, max_completion_tokens: 2 }),
    "max_tokens and max_completion_tokens must not differ",
  ],
  [ask({ max_tokens: 2, max_completion_tokens: 2 }), accepted],
  [ask({ n_predict: null, n_cmpl: null, auto_max_new_tokens: false }), accepted],
  [ask({ max_tokens: 1, n_predict: 4000 }), "n_predict is not supported, use max_tokens"],
  [ask({ n_predict: "1" }), "n_predict is not supported, use max_tokens"],
  [ask({ n: 1, n_cmpl: 8 }), "n_cmpl is not supported, use n"],
  [ask({ auto_max_new_tokens: true }), "auto_max_new_tokens is not supported, use max_tokens"],
  [ask({ background: true }), "background is not supported"],
  [ask({ deferred: null }), accepted],
  [ask({ deferred: false }), accepted],
  [ask({ deferred: true }), "deferred is not supported"],
  [ask({ deferred: "true" }), "deferred is not supported"],
  [ask({ service_tier: "scale" }), `service_tier is not supported: ${noPrice}`],
  [
    ask({ prompt_cache_options: { ttl: "12h" } }),
    `prompt_cache_options.ttl is not supported: ${noPrice}`,
  ],
  [ask({ service_tier: "default" }), accepted],
  [ask({ cache_control: { ttl: "5m" } }), accepted],
  [ask({ cache_control: { ttl: "1h" } }), "cache_control beyond 5m is not supported"],
  ...["models", "route", "provider"].map(
    (field) => [ask({ [field]: "x" }), `${field} is not supported`] as const,
  ),
  ...["plugins", "web_search_options", "speed"].map(
    (field) => [ask({ [field]: "x" }), `${field} is not supported: ${noPrice}`] as const,
  ),
  [ask({ audio: "x" }), `audio is not supported: ${unsold("audio", "rub_audio_output_per_1m")}`],
  [
    ask({ modalities: "x" }),
    `modalities is not supported: ${unsold("modalities", "rub_audio_output_per_1m", "rub_image_output_per_1m")}`,
  ],
  [
    ask({ tools: [{ type: "image_generation" }] }),
    `tools of the type image_generation are not supported: ${uncounted("image_generation")}`,
  ],
  [ask({ tools: [{ type: "web_search" }] }), accepted],
  ...["openrouter:web_search", "made_next_month"].map(
    (type) =>
      [
        ask({ tools: [{ type }] }),
        `tools of the type ${type} are not supported: ${noPrice}`,
      ] as const,
  ),
  [ask({ tools: [{ type: "function", function: { name: "f" } }], seed: 1 }), accepted],
  [ask({ messages: [{ role: "user", content: [{ type: "text", text: "x" }] }] }), accepted],
  [
    ask({ messages: [{ role: "user", content: [{ type: "text" }] }] }),
    "messages[0].content[0].text is required",
  ],
  [
    ask({ messages: [{ role: "user", content: null }] }),
    "messages[0].content must be a string or an array of parts",
  ],
  [ask({ messages: [{ role: "assistant", content: null, tool_calls: [{ id: "1" }] }] }), accepted],
  [ask({ messages: [{ role: "assistant", tool_calls: [{ id: "1" }] }] }), accepted],
];
