import type { Provider } from "../providers/registry.ts";
import type { Candidate } from "./candidates.ts";

/** The speed of a route, in tokens a second, until the config or finished answers show it. */
const START_TOKENS_PER_SECOND = 100;
/** Hidden generation is estimated a little high, so that nobody gains from the error of the estimate. */
const HIDDEN_MARGIN = 1.02;
/** The time of a shorter answer is mostly the network's. */
const SAMPLE_TOKENS_MIN = 50;
/** The least tokens where the time to the first token is unknown: a long prompt must not make a model look slow. */
const WHOLE_SAMPLE_TOKENS_MIN = 500;
/** The weight of earlier answers when one is added, so that about the last thirty count. */
const KEPT_SHARE = 0.97;
/** Text counts as the whole answer if its estimate reaches this share of the reported tokens. */
const VISIBLE_SHARE = 0.6;
/** Text that arrives within this time, or within this share of the whole time, was generated before and buffered. */
const BUFFERED_MS_MAX = 250;
const BUFFERED_SHARE_MAX = 0.1;
/**
 * A route hides generation if its text shows less of its tokens than this share leaves. Estimates of text are nearer
 * than that.
 */
const HIDDEN_SHARE_MIN = 0.4;
/** A time to the first token is never taken for longer, so that a queue does not hide generation. */
const LATENCY_MS_MAX = 3000;
/** How far the usual time to the first token follows a longer one. It follows a shorter one at once. */
const LATENCY_DRIFT = 0.01;
/** Silence up to this time is taken for the network. */
const SILENCE_MS_MIN = 2000;
/** Silence up to this multiple of the usual time to the first token is taken for another such time. */
const LATENCY_FACTOR = 2;
/** A route that began an answer within this time before a request is known to live during the request. */
const ALIVE_MS = 30_000;
/** A line through answers needs this many of them, with durations that differ by this much, in seconds. */
const LINE_ANSWERS_MIN = 4;
const LINE_DEVIATION_MIN = 2;

/** A finished answer whose provider reported its usage. */
export interface FinishedAnswer {
  /** Reported completion tokens of all choices. */
  readonly tokens: number;
  /** The estimate of the tokens that arrived as text. Undefined if the answer was no stream. */
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
  /** Tokens a second of one choice, with the margin. */
  tokensPerSecond: number;
  /** The config or finished answers have shown it. */
  isKnown: boolean;
  /** The usual time to the first token. */
  #latencyMs = 0;
  /** Sums of the answers whose generation was visible from its beginning. Later ones weigh more. */
  readonly #visible = { tokens: 0, seconds: 0 };
  #visibleLatencyMs: number | undefined;
  /** The sums of all other answers, for a line of tokens by seconds. */
  readonly #whole = { count: 0, tokens: 0, seconds: 0, squares: 0, products: 0 };
  /** Sums of the streams: reported tokens, and those of them that no text showed. */
  readonly #streams = { tokens: 0, hidden: 0 };
  #aliveAtMs = -Infinity;

  /** `start`: tokens a second until finished answers show it. */
  constructor(start: number | undefined) {
    this.tokensPerSecond = start ?? START_TOKENS_PER_SECOND;
    this.isKnown = start !== undefined;
  }

  /** Adds a finished answer. A very short one says nothing of the speed, and neither does one whose text was buffered. */
  add(answer: FinishedAnswer): void {
    const { tokens, textTokens = 0, choiceCount, firstContentMs, durationMs } = answer;
    const tokensOfOne = tokens / choiceCount;
    if (answer.textTokens !== undefined) this.#addHidden(tokens, textTokens);
    if (firstContentMs !== undefined && textTokens >= tokens * VISIBLE_SHARE) {
      this.#addLatency(firstContentMs);
      const visibleMs = durationMs - firstContentMs;
      const isBuffered = visibleMs < Math.max(BUFFERED_MS_MAX, durationMs * BUFFERED_SHARE_MAX);
      if (!isBuffered) this.#addVisible(tokensOfOne, visibleMs / 1000);
    } else this.#addWhole(tokensOfOne, durationMs / 1000);
    const { visible, whole } = { visible: this.#visible, whole: this.#wholeLine() };
    this.#latencyMs = this.#visibleLatencyMs ?? whole.latencyMs;
    const seconds = visible.seconds + whole.seconds;
    if (seconds <= 0) return;
    this.tokensPerSecond = ((visible.tokens + this.#whole.tokens) / seconds) * HIDDEN_MARGIN;
    this.isKnown = true;
  }

  /** Whether the finished streams have tokens that no text shows. Then slow text is a sign of hidden generation. */
  get hidesGeneration(): boolean {
    const { tokens, hidden } = this.#streams;
    return hidden > tokens * HIDDEN_SHARE_MIN;
  }

  /** The tokens of one choice that a silence before the first text may hide. A short one is the network's. */
  hiddenTokens(silentMs: number): number {
    if (silentMs <= Math.max(SILENCE_MS_MIN, LATENCY_FACTOR * this.#latencyMs)) return 0;
    return ((silentMs - this.#latencyMs) / 1000) * this.tokensPerSecond;
  }

  /** An answer of the route began now, in monotonic time. */
  answerBegan(nowMs: number): void {
    this.#aliveAtMs = nowMs;
  }

  /** Whether the route answered something since shortly before this monotonic time. */
  wasAliveSince(sinceMs: number): boolean {
    return this.#aliveAtMs >= sinceMs - ALIVE_MS;
  }

  #addLatency(firstContentMs: number): void {
    const latencyMs = Math.min(firstContentMs, LATENCY_MS_MAX);
    const before = this.#visibleLatencyMs ?? latencyMs;
    const isShorter = latencyMs <= before;
    this.#visibleLatencyMs = isShorter ? latencyMs : before + (latencyMs - before) * LATENCY_DRIFT;
  }

  #addHidden(tokens: number, textTokens: number): void {
    this.#streams.tokens = this.#streams.tokens * KEPT_SHARE + tokens;
    this.#streams.hidden = this.#streams.hidden * KEPT_SHARE + Math.max(0, tokens - textTokens);
  }

  #addVisible(tokens: number, seconds: number): void {
    if (tokens < SAMPLE_TOKENS_MIN || seconds <= 0) return;
    this.#visible.tokens = this.#visible.tokens * KEPT_SHARE + tokens;
    this.#visible.seconds = this.#visible.seconds * KEPT_SHARE + seconds;
  }

  #addWhole(tokens: number, seconds: number): void {
    if (tokens < WHOLE_SAMPLE_TOKENS_MIN || seconds <= 0) return;
    const sums = this.#whole;
    sums.count = sums.count * KEPT_SHARE + 1;
    sums.tokens = sums.tokens * KEPT_SHARE + tokens;
    sums.seconds = sums.seconds * KEPT_SHARE + seconds;
    sums.squares = sums.squares * KEPT_SHARE + seconds * seconds;
    sums.products = sums.products * KEPT_SHARE + seconds * tokens;
  }

  /**
   * The seconds of generation in the answers of `#whole`, and the latency before it, from the line through tokens and
   * durations. If the line is not plausible, the whole time counts as generation.
   */
  #wholeLine(): { latencyMs: number; seconds: number } {
    const { count, tokens, seconds, squares, products } = this.#whole;
    const none = { latencyMs: 0, seconds };
    const variance = squares / count - (seconds / count) ** 2;
    if (count < LINE_ANSWERS_MIN || variance < LINE_DEVIATION_MIN ** 2) return none;
    const slope = (products / count - (seconds / count) * (tokens / count)) / variance;
    const latency = seconds / count - tokens / count / slope;
    const isPlausible = slope > 0 && latency > 0 && latency <= LATENCY_MS_MAX / 1000;
    if (!isPlausible) return none;
    return { latencyMs: latency * 1000, seconds: seconds - count * latency };
  }
}

/** What a process of a gateway has learned of a route's speed, for the other ones. */
export interface SpeedNews {
  /** The id of the provider, and its name for the model. */
  readonly provider: string;
  readonly model: string;
  /** Undefined: an answer has begun. */
  readonly finished?: FinishedAnswer;
}

/** How often a process tells that a route began an answer. It is far below ALIVE_MS. */
const TELL_ALIVE_MS = 5000;

/** The speeds of all routes. A provider that a reload creates anew starts without history. */
export class RouteSpeeds {
  readonly #tell: (news: SpeedNews) => void;
  /** By the provider's name for the model. */
  readonly #speeds = new WeakMap<Provider, Map<string, RouteSpeed>>();
  /** When it was told last that the route began an answer, in monotonic time. */
  readonly #toldMs = new WeakMap<RouteSpeed, number>();

  /** `tell` tells the other processes of a gateway. */
  constructor(tell: (news: SpeedNews) => void = () => {}) {
    this.#tell = tell;
  }

  of({ provider, route }: Candidate): RouteSpeed {
    const speeds = this.#speeds.get(provider) ?? new Map<string, RouteSpeed>();
    this.#speeds.set(provider, speeds);
    const speed = speeds.get(route.model) ?? new RouteSpeed(route.tokensPerSecond);
    speeds.set(route.model, speed);
    return speed;
  }

  /** An answer of the route has finished. */
  finished(candidate: Candidate, finished: FinishedAnswer): void {
    this.of(candidate).add(finished);
    const { provider, route } = candidate;
    this.#tell({ provider: provider.id, model: route.model, finished });
  }

  /** An answer of the route began now, in monotonic time. */
  answerBegan(candidate: Candidate, nowMs: number): void {
    const speed = this.of(candidate);
    speed.answerBegan(nowMs);
    if (nowMs - (this.#toldMs.get(speed) ?? -Infinity) < TELL_ALIVE_MS) return;
    this.#toldMs.set(speed, nowMs);
    const { provider, route } = candidate;
    this.#tell({ provider: provider.id, model: route.model });
  }

  /** Another process has learned this of the route. */
  hear(candidate: Candidate, { finished }: SpeedNews, nowMs: number): void {
    if (finished) this.of(candidate).add(finished);
    else this.of(candidate).answerBegan(nowMs);
  }
}
