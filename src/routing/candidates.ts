import type { ModelConfig, RouteConfig } from "../config/schema.ts";
import type { Random } from "../lib/random.ts";
import type { ChatInterface } from "../providers/provider.ts";
import type { Provider } from "../providers/registry.ts";

/** A route that may serve a request, with its provider or one account of it. */
export interface Candidate {
  readonly model: ModelConfig;
  readonly provider: Provider;
  readonly route: RouteConfig;
  /** The share of requests among candidates of equal priority. Accounts of a provider divide the weight of their route. */
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

/** Returns the candidates of one model in the order of attempts: by priority, and at random by weight among equals. */
export function orderCandidates(candidates: readonly Candidate[], random: Random): Candidate[] {
  if (candidates.length < 2) return [...candidates];
  // The key -ln(u)/weight, sorted in ascending order, puts each first with a probability in proportion to its weight.
  const drawn = candidates.map((candidate) => ({
    candidate,
    draw: -Math.log(random.fraction()) / candidate.weight,
  }));
  drawn.sort((a, b) => a.candidate.route.priority - b.candidate.route.priority || a.draw - b.draw);
  return drawn.map(({ candidate }) => candidate);
}
