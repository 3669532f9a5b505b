import { fieldsOf, isJsonObject, type JsonFields } from "../lib/json.ts";

/**
 * Tokens of one answer as they are billed. Cached and cache-write tokens are part of the prompt's;
 * reasoning tokens are part of the completion's. An unknown usage is `undefined`, never zeros.
 */
export interface Usage {
  promptTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  completionTokens: number;
}

/** So many tokens or more are taken for a provider's mistake: no answer and no prompt has them. */
const IMPLAUSIBLE_TOKENS = 1_000_000_000;

export const noUsage: Usage = {
  promptTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  completionTokens: 0,
};

/**
 * Where some providers have the cached tokens beside the details: first DeepSeek,
 * https://api-docs.deepseek.com/guides/kv_cache, then Moonshot, https://platform.moonshot.ai/docs/api/chat.
 */
const CACHED_NAMES = ["prompt_cache_hit_tokens", "cached_tokens"];
/** The same of the written ones, among the details: https://www.alibabacloud.com/help/en/model-studio/context-cache */
const WRITTEN_NAME = "cache_creation_input_tokens";

/** Reads the `usage` of a chat completion; undefined when it is missing or no count. It may still be implausible. */
export function readChatUsage(value: unknown): Usage | undefined {
  if (!isJsonObject(value)) return undefined;
  const details = detailsOf(value);
  const beside = researchTokens(value);
  const prompt = sum(value["prompt_tokens"], beside.prompt);
  const completion = sum(chatCompletionTokens(value), beside.completion);
  return billable(prompt, completion, {
    cached_tokens: firstCount([details["cached_tokens"], ...CACHED_NAMES.map((at) => value[at])]),
    cache_write_tokens: firstCount([details["cache_write_tokens"], details[WRITTEN_NAME]]),
  });
}

function detailsOf({ prompt_tokens_details: details }: JsonFields): JsonFields {
  return fieldsOf(details);
}

function firstCount(values: readonly unknown[]): number | undefined {
  return values.map(tokens).find((count) => count !== undefined);
}

/**
 * The tokens of a completion, those of its reasoning among them. xAI counts these beside the completion, and only its
 * total has them too: https://docs.x.ai/docs/key-information/consumption-and-rate-limits. So a total, which counts
 * for nothing otherwise, is believed where it is the exact sum of all three; where the reasoning is part of the
 * completion, as at OpenAI, it never is.
 */
function chatCompletionTokens(usage: JsonFields): unknown {
  const { prompt_tokens, completion_tokens, completion_tokens_details: details } = usage;
  const reasoning = tokens(fieldsOf(details)["reasoning_tokens"]);
  const prompt = tokens(prompt_tokens);
  const completion = tokens(completion_tokens);
  if (reasoning === undefined || prompt === undefined || completion === undefined) {
    return completion_tokens;
  }
  const total = tokens(usage["total_tokens"]);
  return total === prompt + completion + reasoning ? completion + reasoning : completion;
}

/**
 * What Perplexity's research bills besides: the sources that it read and the reasoning over them, neither of which is
 * in the prompt, the completion or the total: https://docs.perplexity.ai/getting-started/pricing. Only its
 * `citation_tokens` tell that a `reasoning_tokens` outside all details is such.
 */
function researchTokens(usage: JsonFields): { prompt: number; completion: number } {
  const prompt = tokens(usage["citation_tokens"]);
  if (prompt === undefined) return { prompt: 0, completion: 0 };
  return { prompt, completion: tokens(usage["reasoning_tokens"]) ?? 0 };
}

/** The same as parts of the prompt and the completion, as which they are shown: nobody is to count them twice. */
function withResearchInside(usage: JsonFields): JsonFields {
  const { citation_tokens, reasoning_tokens, ...others } = usage;
  if (tokens(citation_tokens) === undefined) return usage;
  return {
    ...others,
    prompt_tokens_details: { ...detailsOf(usage), citation_tokens },
    ...(reasoning_tokens !== undefined && { completion_tokens_details: { reasoning_tokens } }),
  };
}

/** What is no number stays as it is, to be found out. */
function sum(count: unknown, beside: number): unknown {
  return typeof count === "number" ? count + beside : count;
}

/** The same of a response. */
export function readResponsesUsage(value: unknown): Usage | undefined {
  if (!isJsonObject(value)) return undefined;
  const details = isJsonObject(value["input_tokens_details"])
    ? value["input_tokens_details"]
    : value;
  return billable(value["input_tokens"], value["output_tokens"], details);
}

/**
 * The same of a message. There the tokens that were read from the
 * cache and written to it stand beside the prompt's others: https://platform.claude.com/docs/en/build-with-claude/prompt-caching
 */
export function readMessagesUsage(value: unknown): Usage | undefined {
  if (!isJsonObject(value)) return undefined;
  const others = tokens(value["input_tokens"]);
  const cached = tokens(value["cache_read_input_tokens"] ?? 0);
  const written = tokens(value["cache_creation_input_tokens"] ?? 0);
  if (others === undefined || cached === undefined || written === undefined) return undefined;
  return billable(others + cached + written, value["output_tokens"], {
    cached_tokens: cached,
    cache_write_tokens: written,
  });
}

/** How many of a response's output tokens were reasoning; undefined when that is missing or impossible. */
export function readReasoningTokens(usage: unknown): number | undefined {
  return tokens(fieldsOf(fieldsOf(usage)["output_tokens_details"])["reasoning_tokens"]);
}

/** True for a usage that is a provider's mistake, though its figures are whole numbers: nobody may be charged for it. */
export function isImplausible({ promptTokens, completionTokens }: Usage): boolean {
  return Math.max(promptTokens, completionTokens) >= IMPLAUSIBLE_TOKENS;
}

/** Of two reports on one answer the larger, figure by figure: usage only grows while an answer does. */
export function largerUsage(before: Usage, now: Usage): Usage {
  return capCachedTokens({
    promptTokens: Math.max(before.promptTokens, now.promptTokens),
    cachedTokens: Math.max(before.cachedTokens, now.cachedTokens),
    cacheWriteTokens: Math.max(before.cacheWriteTokens, now.cacheWriteTokens),
    completionTokens: Math.max(before.completionTokens, now.completionTokens),
  });
}

/** True where a later report takes back some of an earlier one. */
export function hasDecreased(before: Usage, now: Usage): boolean {
  return now.promptTokens < before.promptTokens || now.completionTokens < before.completionTokens;
}

export function totalTokens(usage: Usage): number {
  return usage.promptTokens + usage.completionTokens;
}

/** The four counts under the names that reports give them. */
export function tokenCounts(usage: Usage) {
  return {
    prompt_tokens: usage.promptTokens,
    cached_tokens: usage.cachedTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    completion_tokens: usage.completionTokens,
  };
}

/**
 * The usage object of the public contract. What else the provider put into its own (`reported`) is
 * kept; the figures that are billed take the place of the provider's, under each name that it has for them.
 */
export function usageObject(usage: Usage, reported: unknown): Record<string, unknown> {
  const other = isJsonObject(reported) ? withResearchInside(reported) : {};
  const details = detailsOf(other);
  const { promptTokens, cachedTokens, cacheWriteTokens } = usage;
  return {
    ...other,
    ...only(other, {
      ...Object.fromEntries(CACHED_NAMES.map((name) => [name, cachedTokens])),
      prompt_cache_miss_tokens: promptTokens - cachedTokens,
    }),
    prompt_tokens: promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: totalTokens(usage),
    prompt_tokens_details: {
      ...details,
      ...only(details, { [WRITTEN_NAME]: cacheWriteTokens }),
      cached_tokens: cachedTokens,
      cache_write_tokens: cacheWriteTokens,
    },
  };
}

/** Those of the figures whose names stand in `reported`. */
function only(reported: JsonFields, figures: JsonFields): JsonFields {
  return Object.fromEntries(
    Object.entries(figures).filter(([name]) => Object.hasOwn(reported, name)),
  );
}

function billable(
  prompt: unknown,
  completion: unknown,
  details: Record<string, unknown>,
): Usage | undefined {
  const promptTokens = tokens(prompt);
  const completionTokens = tokens(completion);
  if (promptTokens === undefined || completionTokens === undefined) return undefined;
  const cachedTokens = tokens(details["cached_tokens"]) ?? 0;
  const cacheWriteTokens = tokens(details["cache_write_tokens"]) ?? 0;
  return capCachedTokens({ promptTokens, cachedTokens, cacheWriteTokens, completionTokens });
}

/** Cached parts over the prompt are cut: first the cached ones, then the written, to what is left. */
export function capCachedTokens(usage: Usage): Usage {
  const cachedTokens = Math.min(usage.cachedTokens, usage.promptTokens);
  const cacheWriteTokens = Math.min(usage.cacheWriteTokens, usage.promptTokens - cachedTokens);
  return { ...usage, cachedTokens, cacheWriteTokens };
}

function tokens(value: unknown): number | undefined {
  const possible = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  return possible ? value : undefined;
}
