import type { ReportedError } from "./reportedError.ts";

/** The code by which clients of OpenAI's interfaces know that they must shorten the conversation. */
export const CONTEXT_OVERFLOW_CODE = "context_length_exceeded";

/** Codes and types, in lower case. */
const CODES: ReadonlySet<string> = new Set([
  // OpenAI, Groq, Cerebras
  CONTEXT_OVERFLOW_CODE,
  // llama.cpp: https://github.com/ggml-org/llama.cpp/pull/15780
  "exceed_context_size_error",
  // Anthropic's stop reason
  "model_context_window_exceeded",
  // GitHub
  "model_max_prompt_tokens_exceeded",
  "tokens_limit_reached",
  // LiteLLM
  "contextwindowexceedederror",
  "context_window_exceeded",
  "context_window_exceeded_error",
  // Baidu
  "tokens_too_long",
]);

/** What providers say, without the words before it. */
const SENTENCES: readonly RegExp[] = [
  // OpenAI, DeepSeek, OpenRouter, xAI, vLLM: "This model's maximum context length is 8192 tokens. However, ..."
  /(?:this|the|your)? ?(?:model|endpoint|deployment)(?:['’]s)? (?:maximum|max) (?:context|prompt|input|sequence) (?:length|limit|size)\b/,
  // OpenAI's responses
  /(?:your|the) (?:input|prompt|request) exceeds the (?:model['’]s )?context (?:window|length|size|limit)\b/,
  /input tokens exceed the configured limit\b/,
  // Groq, Cerebras
  /please reduce the length of (?:the|your) (?:messages|prompt|input)\b/,
  // vLLM
  /[`']?max_(?:completion_)?tokens\b.{0,80}\bis too large: .{0,80}\bmaximum context length\b/,
  /you passed \d+ input (?:tokens|characters)\b.{0,99}\bcontext length\b/,
  /the (?:decoder |encoder |engine )?prompt (?:\((?:total )?length \d+\)|length \d+) (?:is (?:longer|too long)|exceeds)\b/,
  // SGLang, Volcengine, TensorRT-LLM
  /(?:the )?(?:input|prompt)(?: length)? \(?\d+(?: tokens)?\)? (?:is longer than the model|exceeds (?:the |model)?(?:['’]s )?(?:max|allowed|context|model))/,
  /requested token count exceeds the model['’]s maximum context length\b/,
  // TGI, Together
  /[`']?inputs[`']? (?:tokens \+ [`']?max_new_tokens[`']? must be|must have less than)\b/,
  // Anthropic, Fireworks, Ollama
  /(?:the |your )?(?:prompt|context|conversation) (?:is )?too (?:long|large)(?=$|[:;.!,]| for\b)/,
  /input length and [`']?max_tokens[`']? exceed context limit\b/,
  // Bedrock
  /(?:the |your )?input is too long(?= for (?:the )?requested model\b|[.!]?$)/,
  /(?:input tokens exceeded|number of input tokens exceeds)\b/,
  // Google
  /(?:unable to submit request because )?the input token count\b.{0,40}\b(?:exceeds the maximum|but (?:the )?model only supports)\b/,
  // llama.cpp
  /(?:the )?request (?:\(\d+ tokens\) )?exceeds the available context size\b/,
  /input (?:prompt )?is (?:larger than the max context size|too big compared to kv size)\b/,
  // LM Studio
  /trying to keep the first \d+ tokens when (?:the )?context\b/,
  /the number of tokens to keep from the initial prompt is greater than the context length\b/,
  /reached context length of \d+ tokens\b/,
  /cannot truncate prompt with n_keep\b/,
  // Ollama
  /(?:the )?input length exceeds (?:the |maximum )?context length\b/,
  // Mistral
  /prompt contains \d+ tokens\b.{0,60}\btoo large for model\b/,
  // Moonshot
  /your request exceeded model token limit\b/,
  /input token length too long\b/,
  // Alibaba
  /range of input length should be\b/,
  // Zhipu
  /prompt (?:exceeds max length\b|超长)/,
  // MiniMax
  /(?:invalid params, )?context window exceeds limit\b/,
  // Volcengine, Hunyuan
  /total tokens of image and text exceed max message tokens\b/,
  /input length too long\b/,
  // SiliconFlow
  /length of prompt_tokens \(?\d+\)? must be less than max_seq_len\b/,
  // TensorRT-LLM
  /(?:the )?sum of prompt length \([\d.]+\).{0,60}\bshould not exceed max_num_tokens\b/,
  // watsonx
  /the number of input tokens \d+ cannot exceed the total tokens limit\b/,
  // Cloudflare
  /the estimated number of input and maximum output tokens \(\d+\) exceeded this model context window limit\b/,
  // Cohere
  /too many tokens: (?:total number of tokens|size limit exceeded)\b/,
  // GitHub
  /prompt token count of \d+ exceeds the limit\b/,
  // Perplexity
  /the total length of all messages is too long\b/,
  // Baidu
  /(?:the max input characters is|prompt tokens too long)\b/,
  // NVIDIA and Azure's own models
  /(?:tokens in request more than max tokens allowed|context exceeds your deployment)\b/,
  // LiteLLM and others
  /(?:litellm\.)?contextwindowexceedederror\b/,
  /(?:the |maximum |max )?context (?:length|window|size|limit) (?:was |is |has been )?exceeded\b/,
];

/**
 * Before the sentence: a status, names of errors, and words of a server between, each with a colon. What a provider quotes of
 * the client's text comes later.
 */
const BEFORE = String.raw`^\W{0,8}(?:[^:\n]{1,80}: ){0,3}`;
const OVERFLOW = new RegExp(`${BEFORE}(?:${SENTENCES.map(({ source }) => source).join("|")})`, "i");

/** A limit on tokens in a time. Its sentences may look like those of a full context. */
const RATE =
  /\bper (?:second|min(?:ute)?|hour|day)\b|\brate[ _-]?limit|\btp[md]\b|throttl|too many requests/i;

/** Whether the provider says that the prompt is longer than the model's context. */
export function isContextOverflow({ code, type, message, words }: ReportedError): boolean {
  if ([code, type].some((word) => CODES.has(word?.toLowerCase() ?? ""))) return true;
  return [message, words].some(
    (text) => text !== undefined && OVERFLOW.test(text) && !RATE.test(text),
  );
}
