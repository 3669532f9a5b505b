import type { Provider } from "../providers/registry.ts";
import type { Candidate } from "./candidates.ts";

/** The weight of earlier prompts when one is added, so that about the last thirty count. */
const KEPT_SHARE = 0.97;
/** A count of a shorter prompt is mostly what the provider adds to it. */
const SAMPLE_TOKENS_MIN = 100;
/** No tokenizer differs more from the estimate. */
const RATIO_MAX = 4;

interface Sums {
  estimated: number;
  counted: number;
}

/**
 * How the routes count prompts, compared with the gateway's estimates: running sums of finished answers. They correct
 * the estimate that a client sees before the provider has counted. Nothing is charged by them. A provider that a
 * reload creates anew starts without history.
 */
export class PromptCounts {
  /** By the provider's name for the model. */
  readonly #sums = new WeakMap<Provider, Map<string, Sums>>();

  /** Adds the tokens of a prompt, as they were estimated and as the provider has counted them. */
  add({ provider, route }: Candidate, estimated: number, counted: number): void {
    const ratio = counted / estimated;
    if (estimated < SAMPLE_TOKENS_MIN || ratio > RATIO_MAX || ratio < 1 / RATIO_MAX) return;
    const routes = this.#sums.get(provider) ?? new Map<string, Sums>();
    this.#sums.set(provider, routes);
    const sums = routes.get(route.model) ?? { estimated: 0, counted: 0 };
    routes.set(route.model, sums);
    sums.estimated = sums.estimated * KEPT_SHARE + estimated;
    sums.counted = sums.counted * KEPT_SHARE + counted;
  }

  /** Corrects an estimate by how the route has counted earlier prompts. */
  nearer({ provider, route }: Candidate, estimated: number): number {
    const sums = this.#sums.get(provider)?.get(route.model);
    return sums ? Math.round((estimated * sums.counted) / sums.estimated) : estimated;
  }
}
