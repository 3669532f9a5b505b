import { countOf, larger, membersOf, type Members, type Tokens } from "./tokens.ts";

/** A count of searches from this on is impossible. */
const SEARCHES_MAX = 100_000n;

/**
 * The tokens of a `usage` of Anthropic's interface. Its input tokens leave out those of the cache. Undefined if a count is
 * missing or impossible; `unclear` for an answer of several runs, whose usage lists them.
 */
export function messageTokens(usage: unknown): Tokens | "unclear" | undefined {
  const said = membersOf(usage);
  if (said["iterations"] !== undefined) return "unclear";
  const plain = countOf(said["input_tokens"]);
  const completion = countOf(said["output_tokens"]);
  const cached = countOf(said["cache_read_input_tokens"] ?? 0);
  const total = countOf(said["cache_creation_input_tokens"] ?? 0);
  if (plain === undefined || completion === undefined) return undefined;
  if (cached === undefined || total === undefined) return undefined;
  const lifetimes = membersOf(said["cache_creation"]);
  const hour = countOf(lifetimes["ephemeral_1h_input_tokens"]) ?? 0n;
  const short = countOf(lifetimes["ephemeral_5m_input_tokens"]) ?? 0n;
  const written = larger(total, short + hour);
  const searches = countOf(membersOf(said["server_tool_use"])["web_search_requests"]) ?? 0n;
  if (searches >= SEARCHES_MAX) return undefined;
  return { prompt: plain + cached + written, cached, written, hour, completion, searches };
}

/** The usage in the events of a stream: what the end leaves out has not changed since the start. */
export function streamedMessageUsage(events: readonly Members[]): Members | undefined {
  const start = events.find(({ type }) => type === "message_start");
  const ends = events.filter(({ type, usage }) => type === "message_delta" && usage !== undefined);
  if (ends.length === 0) return undefined;
  // The output tokens at the start are a placeholder.
  const counts = { ...membersOf(membersOf(start?.["message"])["usage"]), output_tokens: undefined };
  return Object.assign(counts, ...ends.map(({ usage }) => membersOf(usage))) as Members;
}
