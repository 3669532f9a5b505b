export type FinishReason = "stop" | "length" | "content_filter" | "tool_calls" | "error";

/**
 * Other words of servers for each reason. Upper case, and `-` or a space instead of `_`, make no difference. Sources:
 * https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons,
 * https://ai.google.dev/api/generate-content#FinishReason, https://docs.cohere.com/reference/chat,
 * https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html, https://docs.mistral.ai/api/,
 * https://docs.z.ai/api-reference/llm/chat-completion, https://api-docs.deepseek.com/api/create-chat-completion,
 * https://cloud.ibm.com/apidocs/watsonx-ai, https://github.com/xai-org/xai-proto, the sources of vLLM, SGLang, TGI,
 * llama.cpp and Ollama.
 */
const WORDS: Readonly<Record<FinishReason, string>> = {
  stop:
    "stop stopped reason_stop end_turn end_of_turn stop_sequence stop_token stop_string_found eos eos_token eos_found " +
    "end complete completed finish finished done success normal word load unload",
  tool_calls:
    "tool_calls tool_call tool_use tool tools function function_call function_calls function_calling reason_tool_calls",
  length:
    "length continuation compaction pause_turn error_limit time_limit reason_time_limit repetition loop",
  content_filter: "content_filter language other spii no_image",
  error: "error model_unloaded user_stopped oom",
};

/**
 * Parts of words that say that the answer is not whole; the first that matches decides. A wrong call of the model is no
 * error: a caller can cause it, and would get the content before it for nothing.
 */
const FAMILIES: readonly (readonly [FinishReason, RegExp])[] = [
  ["length", /malformed|unexpected_tool|too_many|missing_thought/],
  [
    "content_filter",
    /safety|unsafe|filter|block|prohibit|refus|guardrail|moderat|sensitiv|recitation|toxic|harm|violat|policy|armor|flagged|copyright|reject|denied|forbidden/,
  ],
  [
    "error",
    /abort|cancel|interrupt|time_?out|timed_out|deadline|fail|error|exception|crash|kill|evict|network|connect|unavailable|insufficient|overload|rate_limit|quota|internal|memory|preempt/,
  ],
  [
    "length",
    /length|limit|(?:^|_)max(?:imum)?(?:_|$)|truncat|context|budget|cut_?off|exceed|incomplete|unfinished|partial/,
  ],
];

/** Texts for a missing reason: in a chunk, the answer continues. */
const NONE = ["", "null", "none", "unspecified", "finish_reason_unspecified", "not_finished"];

const KNOWN: ReadonlyMap<string, FinishReason | undefined> = new Map([
  ...NONE.map((word) => [word, undefined] as const),
  ...Object.entries(WORDS).flatMap(([reason, words]) =>
    words.split(" ").map((word) => [word, reason as FinishReason] as const),
  ),
]);

/** The longest word that is read as a reason. */
const WORD_CHARACTERS_MAX = 100;

/** Undefined for a value that is no text. */
function wordOf(reported: unknown): string | undefined {
  if (typeof reported !== "string") return undefined;
  return reported
    .slice(0, WORD_CHARACTERS_MAX)
    .replaceAll(/([a-z])([A-Z])/g, "$1_$2")
    .replaceAll(/[-\s]+/g, "_")
    .toLowerCase();
}

function meaningOf(word: string): FinishReason | undefined {
  return KNOWN.get(word) ?? FAMILIES.find(([, family]) => family.test(word))?.[0];
}

/** Whether there is no finish reason. In a chunk: the answer continues. */
export function isMissingFinishReason(reported: unknown): boolean {
  if (reported === undefined || reported === null) return true;
  const word = wordOf(reported);
  return word !== undefined && KNOWN.has(word) && KNOWN.get(word) === undefined;
}

/** Whether there is a finish reason whose meaning is not known. */
export function isUnknownFinishReason(reported: unknown): boolean {
  if (isMissingFinishReason(reported)) return false;
  const word = wordOf(reported);
  return word === undefined || meaningOf(word) === undefined;
}

/**
 * The finish reason that the client gets for a provider's. `error` counts as the provider's failure. An answer with a call
 * that says no more than that it is whole waits for the call's result.
 */
export function finishReasonOf(reported: unknown, calledTool: boolean): FinishReason {
  const word = wordOf(reported);
  const reason = (word === undefined ? undefined : meaningOf(word)) ?? "stop";
  return reason === "stop" && calledTool ? "tool_calls" : reason;
}
