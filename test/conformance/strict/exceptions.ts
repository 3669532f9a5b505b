/** A pair of a request and a server that may fail, and why no gateway can mend it. */
export interface Exception {
  /** A part of the refusal. */
  readonly words: string;
  /** Unless given, of every server. */
  readonly servers?: RegExp;
  readonly clients?: RegExp;
  readonly reason: string;
}

/** A native request is the client's own text. What it asks of a model that does not take it, it is told. */
const documented: readonly Exception[] = [
  {
    words: "temperature",
    servers: /^OpenAI/,
    clients: /^@continuedev/,
    reason:
      "Continue sends the temperature of its config, which reasoning models refuse without a gateway too.",
  },
  {
    words: "json mode cannot be combined with tool/function calling",
    servers: /^Groq/,
    reason:
      "Groq has no structured output beside tools: https://console.groq.com/docs/structured-outputs",
  },
  {
    words: "thread",
    clients: /^anthropic \(Python\)/,
    reason:
      "Anthropic's tool runner asks for a thread first, and goes on without one when it is refused.",
  },
  {
    words: "thinking.type.enabled",
    servers: /claude-opus-5/,
    reason: "The client set a budget of thinking, which models from Opus 4.7 on refuse.",
  },
  {
    words: "Unexpected role",
    servers: /claude-sonnet-4-6/,
    clients: /^Claude Code/,
    reason:
      "Claude Code decides by the id of the model whether it takes instructions between the turns.",
  },
];

const reason = "It is not mended yet.";

/** What is to be mended: an entry goes when its last pair passes. */
const open: readonly Exception[] = [
  { words: "this model does not keep responses", reason },
  { words: "of the type json_object is not supported", reason },
  { words: "of the type image_url is not supported", reason },
  { words: "Function tools with reasoning_effort", reason },
  { words: "'stop' is not supported with this model", reason },
  { words: "is too large: 128000", reason },
  { words: "maxOutputTokens value of 128000", reason },
  { words: "Image URLs are only allowed", reason },
  { words: "`temperature` is deprecated", reason },
  { words: "'application/json' is unsupported", reason },
  { words: "", servers: /^(Mistral|Groq|Qwen|Ministral)/, reason },
];

export const exceptions = [...documented, ...open];
