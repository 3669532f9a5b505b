import type { RouteConfig } from "../config/schema.ts";
import type { Random } from "../lib/random.ts";
import type { ChatInterface } from "../providers/provider.ts";
import type { Provider } from "../providers/registry.ts";

/** One way to serve a model: a provider and its own name for it. */
export interface Candidate {
  readonly provider: Provider;
  readonly route: RouteConfig;
  /** The provider's interface over which the route serves chat. */
  readonly chat: ChatInterface;
}

/** The candidates in the order of trying: lower priority first, by weighted chance among equals. */
export function orderCandidates(candidates: readonly Candidate[], random: Random): Candidate[] {
  if (candidates.length < 2) return [...candidates];
  // Each draws u^(1/weight); the largest draws first with a chance in proportion to its weight.
  const drawn = candidates.map((candidate) => ({
    candidate,
    draw: random.fraction() ** (1 / candidate.route.weight),
  }));
  drawn.sort((a, b) => a.candidate.route.priority - b.candidate.route.priority || b.draw - a.draw);
  return drawn.map(({ candidate }) => candidate);
}
