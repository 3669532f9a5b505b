import type { Provider } from "../providers/registry.ts";
import type { Candidate } from "./candidates.ts";

/** The tokens a second of a route whose finished answers have not shown it yet, unless the config says it. */
const START_TOKENS_PER_SECOND = 100;
/** A shorter answer says more of the network than of the model. */
const SAMPLE_TOKENS_MIN = 50;
/** The weight of earlier answers when one is added, so that about the last thirty count. */
const KEPT_SHARE = 0.97;
/** Text counts as the whole answer if its estimate reaches this share of the reported tokens. */
const VISIBLE_SHARE = 0.6;
/** A time to the first token is never taken for longer, so that a queue does not hide generation. */
const LATENCY_MS_MAX = 3000;
/** Silence up to this time is taken for the network. */
const SILENCE_MS_MIN = 2000;
/** Silence up to this multiple of the usual time to the first token is taken for another such time. */
const LATENCY_FACTOR = 2;
/** A route that began an answer within this time before a request is known to live during the request. */
const ALIVE_MS = 30_000;

/** A finished answer whose provider reported its usage. */
export interface FinishedAnswer {
  /** Reported completion tokens of all choices. */
  readonly tokens: number;
  /** The estimate of those that arrived as text. Undefined if the answer was no stream. */
  readonly textTokens: number | undefined;
  readonly choiceCount: number;
  /** From sending the request to the first content. Undefined if the answer was no stream. */
  readonly firstContentMs: number | undefined;
  /** From sending the request to the end of the content. */
  readonly durationMs: number;
}

/**
 * How fast a route generates: a running figure of its finished answers. With it the gateway estimates what a provider
 * generates without sending it, such as hidden reasoning.
 */
export class RouteSpeed {
  readonly #start: number;
  /** Sums of the finished answers. Later ones weigh more. */
  #tokens = 0;
  #seconds = 0;
  /** Of the answers without hidden generation: the time to the first content. */
  #latencyMs = 0;
  #latencyWeight = 0;
  #aliveAtMs = -Infinity;

  /** `start`: tokens a second until finished answers show it. */
  constructor(start: number | undefined) {
    this.#start = start ?? START_TOKENS_PER_SECOND;
  }

  /** Tokens a second of one choice. */
  get tokensPerSecond(): number {
    return this.#seconds === 0 ? this.#start : this.#tokens / this.#seconds;
  }

  /** Adds a finished answer. A very short one changes nothing. */
  add(answer: FinishedAnswer): void {
    const { tokens, textTokens = 0, choiceCount, firstContentMs, durationMs } = answer;
    const tokensOfOne = tokens / choiceCount;
    const isVisible = firstContentMs !== undefined && textTokens >= tokens * VISIBLE_SHARE;
    if (isVisible) this.#addLatency(firstContentMs);
    const generatedMs = durationMs - (isVisible ? firstContentMs : this.#usualLatencyMs);
    if (tokensOfOne < SAMPLE_TOKENS_MIN || generatedMs <= 0) return;
    this.#tokens = this.#tokens * KEPT_SHARE + tokensOfOne;
    this.#seconds = this.#seconds * KEPT_SHARE + generatedMs / 1000;
  }

  /** The tokens of one choice that a silence of the provider may hide. A short one is the network's. */
  hiddenTokens(silentMs: number): number {
    const latencyMs = this.#usualLatencyMs;
    if (silentMs <= Math.max(SILENCE_MS_MIN, LATENCY_FACTOR * latencyMs)) return 0;
    return ((silentMs - latencyMs) / 1000) * this.tokensPerSecond;
  }

  /** An answer of the route began now, in monotonic time. */
  answerBegan(nowMs: number): void {
    this.#aliveAtMs = nowMs;
  }

  /** Whether the route answered something since shortly before this monotonic time. */
  wasAliveSince(sinceMs: number): boolean {
    return this.#aliveAtMs >= sinceMs - ALIVE_MS;
  }

  get #usualLatencyMs(): number {
    return this.#latencyWeight === 0 ? 0 : this.#latencyMs / this.#latencyWeight;
  }

  #addLatency(firstContentMs: number): void {
    this.#latencyMs = this.#latencyMs * KEPT_SHARE + Math.min(firstContentMs, LATENCY_MS_MAX);
    this.#latencyWeight = this.#latencyWeight * KEPT_SHARE + 1;
  }
}

/** The speeds of all routes. A provider that a reload creates anew starts without history. */
export class RouteSpeeds {
  /** By the provider's name for the model. */
  readonly #speeds = new WeakMap<Provider, Map<string, RouteSpeed>>();

  of({ provider, route }: Candidate): RouteSpeed {
    const speeds = this.#speeds.get(provider) ?? new Map<string, RouteSpeed>();
    this.#speeds.set(provider, speeds);
    const speed = speeds.get(route.model) ?? new RouteSpeed(route.tokensPerSecond);
    speeds.set(route.model, speed);
    return speed;
  }
}
