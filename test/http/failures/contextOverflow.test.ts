import { describe, expect, test } from "bun:test";
import { chat, expectRefusal } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { json, stream } from "../../support/provider/scriptedProvider.ts";
import { sample } from "../../support/sample.ts";

/** What providers say of a prompt that is longer than the model's context, and of what looks like it. */
const at = openBefore(["one", "two"], ({ one, two }) => ({
  providers: { one, two },
  models: [
    { id: "small", routes: [{ provider: "one" }] },
    { id: "both", routes: [{ provider: "one" }, { provider: "two", priority: 2 }] },
  ],
}));

const code = "context_length_exceeded";

const vllmNew =
  "This model's maximum context length is 262144 tokens. However, you requested 32000 output tokens and your prompt contains 230462 input tokens, for a total of 262462 tokens.";

/** The provider, and its error. */
const overflows: readonly (readonly [string, object])[] = [
  ["OpenAI", { message: "x", type: "invalid_request_error", code }],
  ["OpenAI, in words", said("Your input exceeds the context window of this model.")],
  ["OpenAI, configured", said("Input tokens exceed the configured limit of 272000 tokens.")],
  ["DeepSeek", said("This model's maximum context length is 131072 tokens. However, you ...")],
  ["OpenRouter", said("This endpoint's maximum context length is 32768 tokens. However, ...")],
  [
    "OpenRouter, of another",
    {
      message: "Provider returned error",
      metadata: { raw: JSON.stringify({ error: { message: vllmNew } }) },
    },
  ],
  ["xAI", said("This model's maximum prompt length is 131072 but the request contains 537812.")],
  ["Anthropic", said("prompt is too long: 210000 tokens > 200000 maximum")],
  ["Anthropic with a bound", said("input length and `max_tokens` exceed context limit: 1 + 2 > 2")],
  ["Bedrock", said("ValidationException: Input is too long for requested model.")],
  ["Bedrock's Nova", said("Input Tokens Exceeded: Number of input tokens exceeds maximum length.")],
  [
    "Google",
    said("The input token count (1048577) exceeds the maximum number of tokens allowed (1048576)."),
  ],
  [
    "Vertex",
    said(
      "Unable to submit request because the input token count is 1100000 but model only supports up to 1048576.",
    ),
  ],
  ["llama.cpp", { message: "too much", type: "exceed_context_size_error", code: 400 }],
  [
    "llama.cpp, in words",
    said("the request exceeds the available context size, try increasing it"),
  ],
  ["llama.cpp with figures", said("request (40 tokens) exceeds the available context size (32)")],
  ["vLLM", { message: vllmNew, type: "BadRequestError", param: "input_tokens", code: 400 }],
  [
    "vLLM before",
    said("This model's maximum context length is 16384 tokens. However, you requested 19591 ..."),
  ],
  [
    "vLLM with a bound",
    said(
      "'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 262144 tokens",
    ),
  ],
  [
    "vLLM, newest",
    said(
      "You passed 230463 input tokens and requested 32000 output tokens. However, the model's context length is only 262144 tokens",
    ),
  ],
  [
    "vLLM's engine",
    said("The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
  ],
  ["SGLang", said("The input (61709 tokens) is longer than the model's context length (40960).")],
  ["SGLang, allowed", said("Input length (160062 tokens) exceeds the maximum allowed length (5).")],
  ["SGLang, total", said("Requested token count exceeds the model's maximum context length of 9.")],
  ["TGI", said("Input validation error: `inputs` must have less than 4096 tokens. Given: 5000")],
  [
    "Together",
    said("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32769. Given: 4"),
  ],
  ["Ollama", said("prompt too long; exceeded max context length by 4 tokens")],
  ["Ollama, length", said("the input length exceeds the context length")],
  [
    "LM Studio",
    said("Trying to keep the first 111490 tokens when context the overflows. However, the ..."),
  ],
  [
    "LM Studio, newer",
    said(
      "The number of tokens to keep from the initial prompt is greater than the context length.",
    ),
  ],
  ["LM Studio, last", said("Context size has been exceeded.")],
  [
    "Mistral",
    said("Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum"),
  ],
  ["Groq", said("Please reduce the length of the messages or completion.")],
  ["Moonshot", said("Invalid request: Your request exceeded model token limit: 262144")],
  [
    "Alibaba",
    said("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]"),
  ],
  ["Zhipu", { message: "Prompt exceeds max length", code: "1261" }],
  ["MiniMax", said("invalid params, context window exceeds limit (2013)")],
  ["Volcengine", said("Input length 203743 exceeds the maximum length 202752")],
  ["Volcengine, of pictures", said("Total tokens of image and text exceed max message tokens.")],
  ["Hunyuan", said("input length too long")],
  ["SiliconFlow", said("length of prompt_tokens (140000) must be less than max_seq_len (131072).")],
  [
    "TensorRT-LLM",
    said(
      "The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)",
    ),
  ],
  [
    "watsonx",
    said(
      "Invalid input argument for Model 'ibm/granite': the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model",
    ),
  ],
  [
    "Cloudflare",
    said(
      "AiError: The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8000).",
    ),
  ],
  ["GitHub, of a request", { message: "Request body too large", code: "tokens_limit_reached" }],
  ["Fireworks", said("The prompt is too long: 140000, model maximum context length: 131071")],
  ["Cohere", said("too many tokens: total number of tokens in the prompt cannot exceed 4081")],
  ["Baidu", { error_code: 336103, error_msg: "Prompt tokens too long" }],
  ["GitHub", said("prompt token count of 130000 exceeds the limit of 128000")],
  ["Perplexity", said("The total length of all messages is too long.")],
  ["LiteLLM", said("litellm.ContextWindowExceededError: OpenAIException - x")],
];

function said(message: string): object {
  return { message, type: "invalid_request_error", code: "invalid_request_error" };
}

describe.each(sample(overflows, 12, ([name]) => name))(
  "a full context as %s says it",
  (_, error) => {
    test("has the code of OpenAI's interfaces, whatever the status", async () => {
      for (const status of [400, 413, 422]) {
        at.providers.one.answer = json({ error }, { status });
        const reply = await chat(at.gateway, await at.gateway.key());
        expect(reply).toMatchObject({ status: 400, body: { error: { code } } });
      }
    });

    test("also in an event before any content, where no other route is tried", async () => {
      at.providers.one.answer = stream(`data: ${JSON.stringify({ error })}\n\n`);
      at.providers.two.answer = usual;
      const key = await at.gateway.key();
      const reply = await chat(at.gateway, key, { model: "both", stream: true });
      expect(reply).toMatchObject({ status: 400, body: { error: { code } } });
      expect(at.providers.two.requests).toHaveLength(0);
    });
  },
);

test.each([true, false])(
  "an error that is the whole answer is one too, stream %p",
  async (isStream) => {
    // As vLLM, SGLang and Mistral write it.
    const error = { object: "error", message: vllmNew, type: "BadRequestError", code: 400 };
    at.providers.one.answer = isStream ? stream(`data: ${JSON.stringify(error)}\n\n`) : json(error);
    const key = await at.gateway.key();
    const reply = await chat(at.gateway, key, { stream: isStream });
    expect(reply).toMatchObject({ status: 400, body: { error: { code, message: vllmNew } } });
  },
);

test.each([
  "Too many tokens, please wait before trying again.",
  "Rate limit exceeded: prompt is too long: 7 tokens per minute",
  "messages[0].role: 'prompt is too long' is not one of system, user",
  "Invalid 'messages[0].content': string too long. Expected a string with maximum length 10485760",
  "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens",
])("is no full context: %s", async (message) => {
  at.providers.one.answer = json({ error: { message, code: "some_code" } }, { status: 400 });
  expectRefusal(
    await chat(at.gateway, await at.gateway.key()),
    [400, "invalid_request_error", message],
    { code: "some_code" },
  );
});
