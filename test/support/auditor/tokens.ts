/** What an answer used as it is billed: the cached and the written are part of the prompt, `hour` of the written. */
export interface Tokens {
  readonly prompt: bigint;
  readonly cached: bigint;
  readonly written: bigint;
  readonly hour: bigint;
  readonly completion: bigint;
  readonly searches: bigint;
}

/** Nano-roubles for a token of each kind, and for a search. */
export interface Prices {
  readonly priceInput: bigint;
  readonly priceCached: bigint;
  readonly priceWritten: bigint;
  readonly priceHour: bigint;
  readonly priceOutput: bigint;
  readonly priceSearch: bigint;
}

/** The formula of the contract. */
export function priceOf(used: Tokens, prices: Prices): bigint {
  const { prompt, cached, written, hour } = used;
  return (
    (prompt - cached - written) * prices.priceInput +
    cached * prices.priceCached +
    (written - hour) * prices.priceWritten +
    hour * prices.priceHour +
    used.completion * prices.priceOutput +
    used.searches * prices.priceSearch
  );
}

const nothing: Tokens = {
  prompt: 0n,
  cached: 0n,
  written: 0n,
  hour: 0n,
  completion: 0n,
  searches: 0n,
};

/** A count from this on is impossible. */
const TOKENS_MAX = 1_000_000_000n;

/** The field names of the interfaces. A response may have the details beside the other figures. */
const names = {
  embeddings: ["prompt_tokens", undefined, undefined],
  chat: ["prompt_tokens", "completion_tokens", "prompt_tokens_details"],
  responses: ["input_tokens", "output_tokens", "input_tokens_details"],
} as const;
export type Form = keyof typeof names;

/**
 * The tokens of a `usage`, by the contract: cached parts over the prompt are cut, the cached ones first. Undefined
 * where it is missing or impossible.
 */
export function tokensOf(usage: unknown, form: Form): Tokens | undefined {
  const said = membersOf(usage);
  const [promptName, completionName, detailsName] = names[form];
  // Vectors have no tokens, and only their prompt may be counted as the total.
  if (completionName === undefined) {
    const prompt = countOf(said[promptName] ?? said["total_tokens"]);
    return prompt === undefined ? undefined : { ...nothing, prompt };
  }
  const own = countOf(said[promptName]);
  const answered = countOf(said[completionName]);
  if (own === undefined || answered === undefined) return undefined;
  const read = form === "chat" ? countOf(said["citation_tokens"]) : undefined;
  const prompt = own + (read ?? 0n);
  const details = membersOf(said[detailsName] ?? (form === "responses" ? usage : undefined));
  const other = form === "chat" ? otherNames(said, details) : {};
  const cached = smaller(countOf(details["cached_tokens"]) ?? other.cached ?? 0n, prompt);
  const written = smaller(
    countOf(details["cache_write_tokens"]) ?? other.written ?? 0n,
    prompt - cached,
  );
  // Perplexity's research reports cited sources and reasoning in fields of their own.
  const research = read === undefined ? 0n : (countOf(said["reasoning_tokens"]) ?? 0n);
  const completion = answered + besideOf(said, own + answered) + research;
  // The gateway shows these two where there are any. No provider of these interfaces reports them.
  const hour = smaller(countOf(details["cache_write_1h_tokens"]) ?? 0n, written);
  const searches = countOf(said["web_searches"]) ?? 0n;
  return { prompt, cached, written, hour, completion, searches };
}

/** DeepSeek, Moonshot, Alibaba and gateways such as LiteLLM have other names, some of them outside the details. */
function otherNames(said: Members, details: Members): { cached?: bigint; written?: bigint } {
  const cachedNames = ["prompt_cache_hit_tokens", "cache_read_input_tokens", "cache_read_tokens"];
  const writtenNames = ["cache_creation_input_tokens", "cache_creation_tokens"];
  const first = (names: readonly string[], own: string): bigint | undefined =>
    [...names.map((name) => details[name]), said[own], ...names.map((name) => said[name])]
      .map(countOf)
      .find((count) => count !== undefined);
  const cached = first(cachedNames, "cached_tokens");
  const written = first(writtenNames, "cache_write_tokens");
  return { ...(cached !== undefined && { cached }), ...(written !== undefined && { written }) };
}

/** The largest of several reports on one answer, figure by figure: counts only grow. */
export function largest(reports: readonly Tokens[]): Tokens {
  return reports.reduce((one, other) => ({
    prompt: larger(one.prompt, other.prompt),
    cached: larger(one.cached, other.cached),
    written: larger(one.written, other.written),
    hour: larger(one.hour, other.hour),
    completion: larger(one.completion, other.completion),
    searches: larger(one.searches, other.searches),
  }));
}

/**
 * Reasoning that a provider counts beside the completion, so that only its total has all three:
 * https://docs.x.ai/docs/key-information/consumption-and-rate-limits.
 */
function besideOf(said: Members, sum: bigint): bigint {
  const reasoning = countOf(membersOf(said["completion_tokens_details"])["reasoning_tokens"]) ?? 0n;
  return countOf(said["total_tokens"]) === sum + reasoning ? reasoning : 0n;
}

export type Members = Readonly<Record<string, unknown>>;

/** The members of an object; empty for other values. */
export function membersOf(value: unknown): Members {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as Members)
    : {};
}

export function countOf(value: unknown): bigint | undefined {
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) return undefined;
  const count = BigInt(value);
  return count < TOKENS_MAX ? count : undefined;
}

function smaller(one: bigint, other: bigint): bigint {
  return one < other ? one : other;
}

export function larger(one: bigint, other: bigint): bigint {
  return one > other ? one : other;
}
