import { fieldsOf, isJsonObject, type JsonFields } from "../lib/json.ts";
import { figures, ofEachFigure, otherFigures, type OtherCounts, type Usage } from "./figures.ts";
import { capParts } from "./figureParts.ts";

export type { Usage };

export const noUsage: Usage = ofEachFigure(() => 0);

/**
 * Names of the cached tokens in a chat's usage, inside and outside its details: OpenAI; DeepSeek,
 * https://api-docs.deepseek.com/guides/kv_cache; Moonshot, https://platform.moonshot.ai/docs/api/chat; and gateways in
 * front of Anthropic's models, such as LiteLLM.
 */
const CACHED_NAMES = [
  "cached_tokens",
  "prompt_cache_hit_tokens",
  "cache_read_input_tokens",
  "cache_read_tokens",
] as const;
/**
 * Names of the cache-write tokens: Alibaba, https://www.alibabacloud.com/help/en/model-studio/context-cache, and
 * gateways in front of Anthropic's models, https://docs.litellm.ai/docs/completion/prompt_caching.
 */
const CACHE_WRITE_NAMES = [
  "cache_write_tokens",
  "cache_creation_input_tokens",
  "cache_creation_tokens",
] as const;

/** Reads the `usage` of a chat completion; undefined if it is missing or not counts. It may still be implausible. */
export function readChatUsage(value: unknown): Usage | undefined {
  if (!isJsonObject(value)) return undefined;
  const details = detailsOf(value);
  const beside = researchTokens(value);
  const prompt = sum(value["prompt_tokens"], beside.prompt);
  const completion = sum(chatCompletionTokens(value), beside.completion);
  return billable(
    prompt,
    completion,
    {
      ...details,
      cached_tokens: firstCount([details, value], CACHED_NAMES),
      cache_write_tokens: firstCount([details, value], CACHE_WRITE_NAMES),
    },
    fieldsOf(value["completion_tokens_details"]),
  );
}

/** The first count under one of the names, in the first of the objects that has any. */
function firstCount(objects: readonly JsonFields[], names: readonly string[]): number | undefined {
  for (const object of objects) {
    const name = names.find((one) => tokens(object[one]) !== undefined);
    if (name !== undefined) return tokens(object[name]);
  }
  return undefined;
}

function detailsOf({ prompt_tokens_details: details }: JsonFields): JsonFields {
  return fieldsOf(details);
}

/**
 * The completion tokens with those of reasoning. xAI reports reasoning outside the completion, and a total of prompt,
 * completion and reasoning (https://docs.x.ai/docs/key-information/consumption-and-rate-limits). So reasoning is added
 * only if the total is exactly this sum. With OpenAI, where reasoning is part of the completion, it never is.
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
 * Whether the total that a chat's usage reports is larger than what is billed of it. The rest may be hidden reasoning, which
 * some servers count in the total only, but also tokens of a cache or of images, so it is not charged.
 */
export function isTotalLarger(reported: unknown, billed: Usage): boolean {
  return (tokens(fieldsOf(reported)["total_tokens"]) ?? 0) > totalTokens(billed);
}

/**
 * Tokens that Perplexity's research models bill besides prompt, completion and total: the sources that they read and
 * the reasoning over them, https://docs.perplexity.ai/getting-started/pricing. A `reasoning_tokens` outside the details
 * counts only together with `citation_tokens`.
 */
function researchTokens(usage: JsonFields): { prompt: number; completion: number } {
  const prompt = tokens(usage["citation_tokens"]);
  if (prompt === undefined) return { prompt: 0, completion: 0 };
  return { prompt, completion: tokens(usage["reasoning_tokens"]) ?? 0 };
}

/** Moves these counts into the details, because the shown prompt and completion tokens include them. */
function withResearchInside(usage: JsonFields): JsonFields {
  if (tokens(usage["citation_tokens"]) === undefined) return usage;
  const { citation_tokens, reasoning_tokens, ...others } = usage;
  return {
    ...others,
    prompt_tokens_details: { ...detailsOf(usage), citation_tokens },
    ...(reasoning_tokens !== undefined && { completion_tokens_details: { reasoning_tokens } }),
  };
}

/** A count that is not a number is returned as it is; `billable` rejects it. */
function sum(count: unknown, beside: number): unknown {
  return typeof count === "number" ? count + beside : count;
}

/**
 * Reads the `usage` of an embeddings answer. Only prompts have tokens there, so a server may report their total alone:
 * https://docs.voyageai.com/reference/embeddings-api
 */
export function readEmbeddingsUsage(value: unknown): Usage | undefined {
  if (!isJsonObject(value)) return undefined;
  return billable(value["prompt_tokens"] ?? value["total_tokens"], 0, {});
}

/** Reads the `usage` of a response. `counts`: what the provider's tools used. */
export function readResponsesUsage(value: unknown, counts: OtherCounts = {}): Usage | undefined {
  if (!isJsonObject(value)) return undefined;
  const details = isJsonObject(value["input_tokens_details"])
    ? value["input_tokens_details"]
    : value;
  const answered = fieldsOf(value["output_tokens_details"]);
  const usage = billable(value["input_tokens"], value["output_tokens"], details, answered);
  return usage && { ...usage, ...counts };
}

/**
 * Reads the `usage` of an Anthropic message. Its input tokens do not include the tokens read from and written to the
 * cache. The tokens written to the cache are the sum of both lifetimes:
 * https://platform.claude.com/docs/en/build-with-claude/prompt-caching. Web searches and runs of code are counted apart from
 * tokens: https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool. `runsCodeFree`: the provider bills no
 * runs of code for this request. `runsSeen`: those that the answer shows, because most reports do not count them.
 */
export function readMessagesUsage(
  value: unknown,
  runsCodeFree = false,
  runsSeen = 0,
): Usage | undefined {
  if (!isJsonObject(value)) return undefined;
  const usage = readIteration(value);
  const billed = usage && largerUsage(usage, iterationsUsage(value["iterations"]));
  const { web_search_requests: searches, code_execution_requests: runs } = fieldsOf(
    value["server_tool_use"],
  );
  const codeSessions = runsCodeFree ? 0 : Math.max(tokens(runs) ?? 0, runsSeen);
  return billed && { ...billed, webSearches: tokens(searches) ?? 0, codeSessions };
}

function readIteration(value: JsonFields): Usage | undefined {
  const { ephemeral_5m_input_tokens, ephemeral_1h_input_tokens } = fieldsOf(
    value["cache_creation"],
  );
  const others = tokens(value["input_tokens"]);
  const cached = tokens(value["cache_read_input_tokens"] ?? 0);
  const total = tokens(value["cache_creation_input_tokens"] ?? 0);
  if (others === undefined || cached === undefined || total === undefined) return undefined;
  const written1h = tokens(ephemeral_1h_input_tokens) ?? 0;
  const written = Math.max(total, (tokens(ephemeral_5m_input_tokens) ?? 0) + written1h);
  const usage = billable(others + cached + written, value["output_tokens"], {
    cached_tokens: cached,
    cache_write_tokens: written,
  });
  return usage && { ...usage, cacheWrite1hTokens: written1h };
}

/**
 * The sum of `iterations`: all runs of a model for one answer. The figures beside them leave some runs out, such as a
 * compaction, and the sum is what is billed: https://platform.claude.com/docs/en/build-with-claude/compaction. A run
 * that declined before any output is not counted if another model answered: its tokens are listed, but most of such
 * runs are not billed (https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback). Runs of other
 * models are counted like the rest, because no other price is known.
 */
function iterationsUsage(iterations: unknown): Usage {
  const runs = Array.isArray(iterations) ? iterations.filter(isJsonObject) : [];
  const isFallback = runs.some(({ type }) => type === "fallback_message");
  let sums = noUsage;
  for (const run of runs) {
    const usage = readIteration(run);
    const isDeclined = isFallback && run["type"] === "message" && usage?.completionTokens === 0;
    if (usage && !isDeclined) sums = addUsage(sums, usage);
  }
  return sums;
}

export function addUsage(one: Usage, other: Usage): Usage {
  return ofEachFigure(({ name }) => one[name] + other[name]);
}

/**
 * Adds a later report of a stream of Messages to an earlier one, both as the provider sends them. Counts are cumulative
 * and only grow, so the larger of two numbers is kept. A count that the later report lacks keeps its value.
 */
export function laterUsage(before: JsonFields, reported: JsonFields): JsonFields {
  const later: Record<string, unknown> = { ...before };
  for (const [name, count] of Object.entries(reported)) {
    const known = later[name];
    const areNumbers = typeof known === "number" && typeof count === "number";
    later[name] = areNumbers ? Math.max(known, count) : (count ?? known);
  }
  return later;
}

/** The reasoning tokens among a response's output tokens; undefined if missing or impossible. */
export function readReasoningTokens(usage: unknown): number | undefined {
  return tokens(fieldsOf(fieldsOf(usage)["output_tokens_details"])["reasoning_tokens"]);
}

/** Whether the counts are too large to be true. Such a usage is not charged. */
export function isImplausible(usage: Usage): boolean {
  return figures.some(({ name, unit }) => usage[name] >= unit.implausible);
}

/** The larger count of two reports on one answer, for each count: usage only grows during an answer. */
export function largerUsage(before: Usage, now: Usage): Usage {
  return capParts(ofEachFigure(({ name }) => Math.max(before[name], now[name])));
}

/** Whether a later report has fewer tokens than an earlier one. */
export function hasDecreased(before: Usage, now: Usage): boolean {
  return now.promptTokens < before.promptTokens || now.completionTokens < before.completionTokens;
}

export function totalTokens(usage: Usage): number {
  return usage.promptTokens + usage.completionTokens;
}

/**
 * The usage that the client gets: the provider's own object (`reported`) with the billed counts under all their names.
 * Cache writes for an hour and what is no token are shown where there are any.
 */
export function usageObject(usage: Usage, reported: unknown): Record<string, unknown> {
  const other: JsonFields = isJsonObject(reported) ? withResearchInside(reported) : {};
  const { promptTokens, cachedTokens, cacheWriteTokens } = usage;
  const details: Record<string, unknown> = { ...detailsOf(other) };
  for (const name of CACHED_NAMES) replace(details, name, cachedTokens);
  for (const name of CACHE_WRITE_NAMES) replace(details, name, cacheWriteTokens);
  details["cached_tokens"] = cachedTokens;
  details["cache_write_tokens"] = cacheWriteTokens;
  showIfAny(details, "cache_write_1h_tokens", usage.cacheWrite1hTokens);
  showIfAny(details, "audio_tokens", usage.audioInputTokens + usage.cachedAudioTokens);
  const shown: Record<string, unknown> = { ...other };
  for (const name of CACHED_NAMES) replace(shown, name, cachedTokens);
  for (const name of CACHE_WRITE_NAMES) replace(shown, name, cacheWriteTokens);
  replace(shown, "prompt_cache_miss_tokens", promptTokens - cachedTokens);
  shown["prompt_tokens"] = promptTokens;
  shown["completion_tokens"] = usage.completionTokens;
  shown["total_tokens"] = totalTokens(usage);
  shown["prompt_tokens_details"] = details;
  const answered = { ...fieldsOf(other["completion_tokens_details"]) };
  showIfAny(answered, "audio_tokens", usage.audioOutputTokens);
  showIfAny(answered, "image_tokens", usage.imageOutputTokens);
  if (Object.keys(answered).length > 0) shown["completion_tokens_details"] = answered;
  for (const { name, field } of otherFigures) showIfAny(shown, field, usage[name]);
  return shown;
}

/** Sets a count that is not 0, or that the provider reports under this name. */
function showIfAny(counts: Record<string, unknown>, name: string, count: number): void {
  if (count > 0 || Object.hasOwn(counts, name)) counts[name] = count;
}

/** Sets a count if the provider reports one of this name. */
function replace(counts: Record<string, unknown>, name: string, count: number): void {
  if (Object.hasOwn(counts, name)) counts[name] = count;
}

/** `details` and `answered` have the parts of prompt and completion. */
function billable(
  prompt: unknown,
  completion: unknown,
  details: JsonFields,
  answered: JsonFields = {},
): Usage | undefined {
  const promptTokens = tokens(prompt);
  const completionTokens = tokens(completion);
  if (promptTokens === undefined || completionTokens === undefined) return undefined;
  const cached = fieldsOf(details["cached_tokens_details"]);
  const cachedAudioTokens = tokens(cached["audio_tokens"]) ?? 0;
  return capParts({
    ...noUsage,
    promptTokens,
    cachedTokens: tokens(details["cached_tokens"]) ?? 0,
    cacheWriteTokens: tokens(details["cache_write_tokens"]) ?? 0,
    audioInputTokens: restOf(details["audio_tokens"], cachedAudioTokens),
    cachedAudioTokens,
    imageInputTokens: restOf(details["image_tokens"], tokens(cached["image_tokens"]) ?? 0),
    completionTokens,
    audioOutputTokens: tokens(answered["audio_tokens"]) ?? 0,
    imageOutputTokens: tokens(answered["image_tokens"]) ?? 0,
  });
}

/** Tokens of a modality without those from the cache. */
function restOf(count: unknown, cached: number): number {
  return Math.max(0, (tokens(count) ?? 0) - cached);
}

function tokens(value: unknown): number | undefined {
  const possible = typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
  return possible ? value : undefined;
}
