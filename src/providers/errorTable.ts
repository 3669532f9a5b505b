import type { AccountFault, UpstreamFault } from "./upstreamError.ts";

/**
 * What providers say when they fail, as data. `errorReply.ts` finds the row of an error. A new sentence of a provider
 * is a new row here.
 */
export interface ErrorRow {
  /** Who answers this way, and where it is documented. Missing: several providers. */
  readonly by?: string;
  readonly fault: UpstreamFault;
  /** What an account lacks, if the row tells. */
  readonly means?: AccountFault;
  /** Missing: any status below 500. */
  readonly statuses?: readonly number[] | "any";
  /** Compared with `code` or `type`, in lower case. */
  readonly codes?: ReadonlySet<string> | RegExp;
  /** Compared with the whole message, in lower case, without its last period. */
  readonly messages?: ReadonlySet<string>;
  /** Matches the beginning of the message. */
  readonly sentence?: RegExp;
  /** Google's reason. */
  readonly reason?: RegExp;
  /** The provider's own request id is beside the error. */
  readonly hasRequestId?: true;
  /** The error is not in the form of the interfaces. */
  readonly isOutOfForm?: true;
  /** Matches the code, the type, or any part of the message. */
  readonly speaksOf?: RegExp;
}

/** Also as a whole message, with spaces, such as DeepSeek's "Insufficient Balance", whose type and code say nothing. */
const EMPTY_CODES = [
  "insufficient_quota",
  "insufficient_balance",
  "insufficient_credits",
  "insufficient_funds",
  "billing_error",
  "billing_hard_limit_reached",
  "billing_not_active",
  "exceeded_current_quota_error",
  "arrearage",
];

/** Whole messages of an empty account. */
export const emptyMessages: ReadonlySet<string> = new Set([
  ...EMPTY_CODES.flatMap((code) => [code, code.replaceAll("_", " ")]),
  "sorry, your account balance is insufficient",
  "billing hard limit has been reached",
]);

/** What says with any status that the operator's account is empty. */
export const emptyAccount: readonly ErrorRow[] = [
  {
    by: "OpenAI, Alibaba and others",
    fault: "account",
    means: "empty",
    statuses: "any",
    codes: new Set(EMPTY_CODES),
  },
  {
    by: "DeepSeek (https://api-docs.deepseek.com/quick_start/error_codes), SiliconFlow, OpenAI",
    fault: "account",
    means: "empty",
    statuses: "any",
    messages: emptyMessages,
  },
];

/** The statuses with which several providers refuse an account in words. */
const ACCOUNT_STATUSES = [400, 403, 429];

/**
 * What providers say when they refuse more than this one request. A row matches by all of its fields, and the first row that
 * matches counts. Only words that no client's text can be are here: fixed codes, whole messages, and beginnings of messages.
 * A message can repeat a client's text, and any client could put the provider in cooldown with it.
 */
export const refusals: readonly ErrorRow[] = [
  // Before the rows of messages, because the caller's own server can write the message of this status.
  {
    by: "OpenAI: the caller's own server (a tool of the type `mcp`) failed; others: the model failed",
    fault: "isolated",
    statuses: [424],
  },
  // Before the rows of an empty account, because Alibaba uses its code for the rate limit of a model.
  {
    by: "Alibaba: https://www.alibabacloud.com/help/en/model-studio/error-code#token-limit",
    fault: "rateLimited",
    statuses: [429],
    sentence:
      /^(?:Allocated quota exceeded|You exceeded your current quota\b.{1,256}\b(?:per (?:minute|second)|aliyun\.com|alibabacloud\.com))\b/s,
  },
  {
    by: "Alibaba",
    fault: "rateLimited",
    statuses: [429],
    hasRequestId: true,
    sentence: /^You exceeded your current quota\b/,
  },
  {
    by: "OpenRouter, for the bound or the prompt of this request; with nothing left the account is empty",
    fault: "isolated",
    statuses: [402],
    sentence:
      /^(?:This request requires more credits, or fewer max_tokens\b(?!.{0,99}\bcan only afford -?0\b)|Prompt tokens limit exceeded\b)/,
  },
  {
    by: "OpenAI, Groq, for the operator's whole organization",
    fault: "operator",
    sentence:
      /^(?:Your organization must (?:be verified|qualify)\b|(?:This |Your )?Organization has been restricted\b)/i,
  },
  {
    by: "OpenAI, Groq",
    fault: "operator",
    codes: new Set(["organization_restricted", "organization_not_verified"]),
  },
  {
    by: "Alibaba's free quota of a model (https://www.alibabacloud.com/help/en/model-studio/error-code), Volcengine's limit of one",
    fault: "modelQuota",
    codes: new Set(["allocationquota.freetieronly", "setlimitexceeded"]),
  },
  {
    by: "Google, also with 400: https://ai.google.dev/gemini-api/docs/troubleshooting",
    fault: "account",
    means: "key",
    reason: /^API_KEY_\w+$/,
  },
  { by: "Google", fault: "account", means: "empty", reason: /^BILLING_DISABLED$/ },
  {
    by: "Google: https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto",
    fault: "account",
    reason:
      /^(?:SERVICE_DISABLED|CONSUMER_(?:INVALID|SUSPENDED)|USER_PROJECT_DENIED|ACCOUNT_STATE_INVALID)$/,
  },
  ...emptyAccount,
  { fault: "account", means: "key", statuses: [401] },
  { fault: "account", means: "empty", statuses: [402] },
  {
    by: "Zhipu, an empty account: https://docs.z.ai/api-reference/api-code",
    fault: "account",
    means: "empty",
    statuses: [429],
    codes: new Set(["1113"]),
  },
  { by: "Zhipu, a locked account", fault: "account", statuses: [429], codes: new Set(["1112"]) },
  // The fixed end of the sentence shows that no client's text follows the key.
  {
    by: "xAI, with 400",
    fault: "account",
    means: "key",
    statuses: ACCOUNT_STATUSES,
    sentence:
      /^Incorrect API key provided: \S{1,128} You can obtain an API key from https:\/\/[a-z.]{1,64}$/,
  },
  {
    by: "Anthropic, Google, xAI",
    fault: "account",
    means: "empty",
    statuses: ACCOUNT_STATUSES,
    sentence:
      /^(?:Your credit balance is too low|Your prepayment credits are depleted|Your team \S{1,64} has either used all available credits or reached its monthly spending limit|Your newly created team doesn't have any credits)\b/,
  },
  {
    by: "Google",
    fault: "account",
    means: "country",
    statuses: ACCOUNT_STATUSES,
    sentence: /^(?:User location is not supported for|Gemini API free tier is not available in)\b/,
  },
  {
    by: "Anthropic",
    fault: "account",
    statuses: ACCOUNT_STATUSES,
    sentence:
      /^(?:You have reached your specified (?:\w+ )?API usage limits|This organization has been disabled)\b/,
  },
  // The last rows are for statuses alone. None has a word of permissions, because a client gets it for an object or a
  // feature that the client names.
  { by: "OpenAI", fault: "account", means: "country", statuses: [403], codes: /country|region/ },
  {
    by: "OpenAI",
    fault: "account",
    means: "country",
    statuses: [403],
    sentence: /^(?:(?:this|your|unsupported) )?(?:country|region)\b/i,
  },
  { fault: "account", means: "key", statuses: [403], codes: /api_?key/ },
  {
    by: "several, Google",
    fault: "account",
    means: "key",
    statuses: [403],
    sentence:
      /^(?:(?:invalid|incorrect) api[ _-]?key\b|Method doesn't allow unregistered callers\b)/i,
  },
  { fault: "account", means: "empty", statuses: [403], codes: /billing|balance|credit|overdue/ },
  { fault: "account", statuses: [403], codes: /account/ },
  {
    fault: "account",
    means: "empty",
    statuses: [403],
    sentence: /^insufficient (?:account )?(?:balance|credits?|funds)\b/i,
  },
  {
    by: "several, Google",
    fault: "account",
    statuses: [403],
    sentence:
      /^(?:(?:your|this|the) )?(?:api[ _-]?key|account|organization|team|project|subscription) (?:is|was|has been|has) (?:\w+ )?(?:disabled|deactivated|suspended|terminated|blocked|banned|closed|locked|overdue|expired|revoked|invalid|not valid)\b|^Permission denied: (?:the )?consumer\b.{0,99}\bsuspended\b/i,
  },
];

/**
 * A request above the tokens of a minute. It is a rate limit, but no time makes the request fit, and it says nothing about
 * the requests of others. OpenAI sends it with 429, Groq with 413: https://console.groq.com/docs/rate-limits
 */
export const aboveRate = {
  sentence: /^Request too large for\b/,
  unit: /\bper min|\bTPM\b/,
  code: "rate_limit_exceeded",
  status: 413,
} as const;

const REQUEST_WORD =
  /moderat|flagg|polic|guideline|safety|violat|harm|content|prompt|\b(?:input|message|parameter|value|field|type|role|name|file|image|tool|keyword)s?\b/i;

/**
 * What a status means for the request where no row of `refusals` matches.
 *
 * Some providers moderate with 403, a firewall may refuse one prompt with it, and a client may name an object that is not
 * the operator's. A word of the request makes it an isolated failure. A word of the model alone is the provider's fault. Any other
 * 403 is `forbidden`: an isolated failure, until another account meets it too (routing/routeHealth.ts).
 */
export const statusFaults: readonly ErrorRow[] = [
  { by: "firewalls", fault: "forbidden", statuses: [403], isOutOfForm: true },
  { fault: "isolated", statuses: [403], speaksOf: REQUEST_WORD },
  {
    by: 'Anthropic answers a refused country with "Request not allowed"',
    fault: "provider",
    statuses: [403],
    speaksOf: /model|\brequests?\b/i,
  },
  {
    by: "Google, for rules of all requests, such as those of a network",
    fault: "provider",
    statuses: [403],
    reason: REQUEST_WORD,
  },
  { fault: "forbidden", statuses: [403] },
  { by: "OpenAI", fault: "tooLarge", statuses: [429], sentence: aboveRate.sentence },
  { fault: "rateLimited", statuses: [429] },
  { fault: "caller", statuses: [400, 409, 422] },
  // Another route may take the size.
  { by: "the provider, or a proxy before it", fault: "tooLarge", statuses: [413, 414, 431] },
  // The size of the request, or what the caller put into it, decides whether it arrives in time.
  { fault: "isolated", statuses: [408] },
  { fault: "notFound", statuses: [404] },
  { fault: "provider", statuses: "any" },
];

/** The code by which clients of OpenAI's interfaces know that they must shorten the conversation. */
export const CONTEXT_OVERFLOW_CODE = "context_length_exceeded";

/** Codes and types of a full context, in lower case. */
export const contextCodes: ReadonlySet<string> = new Set([
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

/** What providers say of a full context, without the words before it. */
export const contextSentences: Readonly<Record<string, readonly RegExp[]>> = {
  "OpenAI, DeepSeek, OpenRouter, xAI, vLLM": [
    /(?:this|the|your)? ?(?:model|endpoint|deployment)(?:['’]s)? (?:maximum|max) (?:context|prompt|input|sequence) (?:length|limit|size)\b/,
  ],
  "OpenAI's responses": [
    /(?:your|the) (?:input|prompt|request) exceeds the (?:model['’]s )?context (?:window|length|size|limit)\b/,
    /input tokens exceed the configured limit\b/,
  ],
  "Groq, Cerebras": [/please reduce the length of (?:the|your) (?:messages|prompt|input)\b/],
  vLLM: [
    /[`']?max_(?:completion_)?tokens\b.{0,80}\bis too large: .{0,80}\bmaximum context length\b/,
    /you passed \d+ input (?:tokens|characters)\b.{0,99}\bcontext length\b/,
    /the (?:decoder |encoder |engine )?prompt (?:\((?:total )?length \d+\)|length \d+) (?:is (?:longer|too long)|exceeds)\b/,
  ],
  "SGLang, Volcengine, TensorRT-LLM": [
    /(?:the )?(?:input|prompt)(?: length)? \(?\d+(?: tokens)?\)? (?:is longer than the model|exceeds (?:the |model)?(?:['’]s )?(?:max|allowed|context|model))/,
    /requested token count exceeds the model['’]s maximum context length\b/,
  ],
  "TGI, Together": [
    /[`']?inputs[`']? (?:tokens \+ [`']?max_new_tokens[`']? must be|must have less than)\b/,
  ],
  "Anthropic, Fireworks, Ollama": [
    /(?:the |your )?(?:prompt|context|conversation) (?:is )?too (?:long|large)(?=$|[:;.!,]| for\b)/,
    /input length and [`']?max_tokens[`']? exceed context limit\b/,
  ],
  Bedrock: [
    /(?:the |your )?input is too long(?= for (?:the )?requested model\b|[.!]?$)/,
    /(?:input tokens exceeded|number of input tokens exceeds)\b/,
  ],
  Google: [
    /(?:unable to submit request because )?the input token count\b.{0,40}\b(?:exceeds the maximum|but (?:the )?model only supports)\b/,
  ],
  "llama.cpp": [
    /(?:the )?request (?:\(\d+ tokens\) )?exceeds the available context size\b/,
    /input (?:prompt )?is (?:larger than the max context size|too big compared to kv size)\b/,
  ],
  "LM Studio": [
    /trying to keep the first \d+ tokens when (?:the )?context\b/,
    /the number of tokens to keep from the initial prompt is greater than the context length\b/,
    /reached context length of \d+ tokens\b/,
    /cannot truncate prompt with n_keep\b/,
  ],
  Ollama: [/(?:the )?input length exceeds (?:the |maximum )?context length\b/],
  Mistral: [/prompt contains \d+ tokens\b.{0,60}\btoo large for model\b/],
  Moonshot: [/your request exceeded model token limit\b/, /input token length too long\b/],
  Alibaba: [/range of input length should be\b/],
  Zhipu: [/prompt (?:exceeds max length\b|超长)/],
  MiniMax: [/(?:invalid params, )?context window exceeds limit\b/],
  "Volcengine, Hunyuan": [
    /total tokens of image and text exceed max message tokens\b/,
    /input length too long\b/,
  ],
  SiliconFlow: [/length of prompt_tokens \(?\d+\)? must be less than max_seq_len\b/],
  "TensorRT-LLM": [
    /(?:the )?sum of prompt length \([\d.]+\).{0,60}\bshould not exceed max_num_tokens\b/,
  ],
  watsonx: [/the number of input tokens \d+ cannot exceed the total tokens limit\b/],
  Cloudflare: [
    /the estimated number of input and maximum output tokens \(\d+\) exceeded this model context window limit\b/,
  ],
  Cohere: [/too many tokens: (?:total number of tokens|size limit exceeded)\b/],
  GitHub: [/prompt token count of \d+ exceeds the limit\b/],
  Perplexity: [/the total length of all messages is too long\b/],
  Baidu: [/(?:the max input characters is|prompt tokens too long)\b/],
  "NVIDIA and Azure's own models": [
    /(?:tokens in request more than max tokens allowed|context exceeds your deployment)\b/,
  ],
  "LiteLLM and others": [
    /(?:litellm\.)?contextwindowexceedederror\b/,
    /(?:the |maximum |max )?context (?:length|window|size|limit) (?:was |is |has been )?exceeded\b/,
  ],
};
