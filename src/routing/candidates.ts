import type { ModelConfig, RouteConfig } from "../config/schema.ts";
import type { Random } from "../lib/random.ts";
import type { ChatInterface } from "../providers/provider.ts";
import type { Provider } from "../providers/registry.ts";

/** A route that may serve a request, with its provider or one account of it. */
export interface Candidate {
  readonly model: ModelConfig;
  readonly provider: Provider;
  readonly route: RouteConfig;
  /** A lower one comes first among candidates of equal priority: what it costs if the model orders by price, else 0. */
  readonly rank: number;
  /** The share of requests among candidates of equal priority and rank. Accounts of a provider divide the weight of their route. */
  readonly weight: number;
  /** Names provider, account and the provider's name for the model. It is the same in each process and after each reload. */
  readonly identity: string;
  /** The provider's interface that the route uses for chat. */
  readonly chat: ChatInterface;
}

/** The slowest generation that a stream's time allows for, in tokens a second. */
const SLOWEST_TOKENS_PER_SECOND = 10;

/**
 * The time for a stream of a route, in milliseconds: enough for the longest answer of the model. A stream that still writes
 * text at its end goes on.
 */
export function streamTimeoutMs({ model, provider }: Candidate): number {
  const { firstByteTimeoutMs, totalTimeoutMs } = provider.config;
  const writingMs = (model.maxOutputTokens / SLOWEST_TOKENS_PER_SECOND) * 1000;
  return Math.max(totalTimeoutMs, firstByteTimeoutMs + writingMs);
}

/** Groups the candidates of a request by model: the requested one first, then its fallbacks. */
export function groupByModel(candidates: readonly Candidate[]): readonly (readonly Candidate[])[] {
  const [first] = candidates;
  if (candidates.every(({ model }) => model === first?.model)) return [candidates];
  return [...Map.groupBy(candidates, ({ model }) => model).values()];
}

/** Whether candidates of one model have equal priority and rank, so that one of them is drawn. */
export function areDrawn(candidates: readonly Candidate[]): boolean {
  return candidates.some(({ model, route, rank }, at) =>
    candidates
      .slice(at + 1)
      .some(
        (other) =>
          other.model === model && other.route.priority === route.priority && other.rank === rank,
      ),
  );
}

/**
 * Returns the candidates of one model in the order of attempts: by priority and rank, and by weight among equals. Equals of a session
 * are drawn by its hash, so each of its requests has the same order, in every process. Without a session they are drawn at
 * random.
 */
export function orderCandidates(
  candidates: readonly Candidate[],
  session: bigint | undefined,
  random: Random,
): Candidate[] {
  if (candidates.length < 2) return [...candidates];
  // The smallest -ln(u) / weight is each one's with a probability in proportion to its weight, and if it falls out, the order
  // of the others stays: https://en.wikipedia.org/wiki/Rendezvous_hashing#Weighted_rendezvous_hash
  const drawn = candidates.map((candidate) => {
    const fraction = session === undefined ? random.fraction() : drawnBy(session, candidate);
    return { candidate, draw: -Math.log(fraction) / candidate.weight };
  });
  drawn.sort(
    (a, b) =>
      a.candidate.route.priority - b.candidate.route.priority ||
      // NaN for two without a cost.
      a.candidate.rank - b.candidate.rank ||
      a.draw - b.draw,
  );
  return drawn.map(({ candidate }) => candidate);
}

/** A number in (0, 1) that is always the same for one session and one candidate, and else as good as random. */
function drawnBy(session: bigint, { identity }: Candidate): number {
  return (Number(Bun.hash.xxHash64(identity, session) >> 11n) + 0.5) / 2 ** 53;
}
