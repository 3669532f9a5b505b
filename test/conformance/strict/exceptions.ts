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
export const exceptions: readonly Exception[] = [
  {
    words: "temperature",
    servers: /^OpenAI|claude-opus-5/,
    clients: /^@continuedev/,
    reason:
      "Continue sends the temperature of its config in a chat, and hears that the model refuses it.",
  },
  {
    words: "Input should be 'high' or 'none'",
    servers: /^Mistral/,
    reason:
      "The effort of a client's own chat. Mistral has two: https://docs.mistral.ai/capabilities/reasoning",
  },
  {
    words: "json mode cannot be combined with tool/function calling",
    servers: /^Groq/,
    reason:
      "Groq has no structured output beside tools: https://console.groq.com/docs/structured-outputs",
  },
  {
    words: "thread_unsupported_request",
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
  {
    words: "Image URLs are only allowed for messages with role 'user'",
    servers: /^OpenAI/,
    clients: /^langchain/,
    reason:
      "LangChain writes a picture into a chat's tool message itself, which OpenAI refuses without a gateway too.",
  },
  {
    words: "for 'role:tool' the following must be satisfied",
    servers: /^Groq/,
    clients: /^langchain/,
    reason: "The same over Groq.",
  },
];
