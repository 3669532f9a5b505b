import type { RouteSpeed } from "../../routing/routeSpeeds.ts";

/** Text that arrives within this time after a silence was generated during it, and was buffered. */
const BURST_MS = 250;
/** A silence hides no generation if the text behind it is about as long as the silence. */
const HIDDEN_SHARE_MIN = 0.25;

/**
 * Estimates what a provider generates without sending it, such as hidden reasoning, by the time in which no text arrives:
 * between the request and the first content, and in every gap behind it.
 */
export class GenerationTime {
  readonly #speed: RouteSpeed;
  readonly #choiceCount: number;
  readonly startedMs: number;
  /** When the last text arrived, or the time began that is not spent yet. */
  #lastTextMs: number;
  #textTokens = 0;
  #hiddenTokens = 0;
  /** The tokens that the last silence may hide, and when it ended. */
  #silenceTokens = 0;
  #silenceTokensBefore = 0;
  #silenceEndedMs = -Infinity;
  /** When the provider said that the answer is complete. Silence behind it is no generation. */
  #finishedMs = Infinity;

  /** `startedMs`: when the request was sent, in monotonic time. */
  constructor(speed: RouteSpeed, choiceCount: number, startedMs: number) {
    this.#speed = speed;
    this.#choiceCount = choiceCount;
    this.startedMs = startedMs;
    this.#lastTextMs = startedMs;
  }

  /** Tokens a second of all choices. */
  get tokensPerSecond(): number {
    return this.#speed.tokensPerSecond * this.#choiceCount;
  }

  /** Whether the route answered something since shortly before the request was sent. */
  get isAlive(): boolean {
    return this.#speed.wasAliveSince(this.startedMs);
  }

  /** When the last text arrived; before the first one, when the request was sent. */
  get lastTextMs(): number {
    return this.#lastTextMs;
  }

  /** Text arrived. `textTokens`: the estimate of all text so far. */
  textArrived(nowMs: number, textTokens: number): void {
    const silenceTokens = this.#tokensIn(nowMs - this.#lastTextMs);
    this.#lastTextMs = nowMs;
    if (silenceTokens > 0) {
      this.#endBurst();
      this.#silenceTokens = silenceTokens;
      this.#silenceTokensBefore = this.#textTokens;
      this.#silenceEndedMs = nowMs;
    } else if (this.#silenceTokens > 0 && nowMs - this.#silenceEndedMs > BURST_MS) {
      this.#endBurst();
    }
    this.#textTokens = textTokens;
  }

  /** The provider said that the answer is complete. */
  finished(nowMs: number): void {
    this.#finishedMs = Math.min(this.#finishedMs, nowMs);
  }

  /** The client did not read until now, so no text could arrive. */
  skipTo(nowMs: number): void {
    this.#lastTextMs = nowMs;
  }

  /** The estimate of the hidden tokens of all choices until now. */
  hiddenTokens(nowMs: number): number {
    const sinceText = this.#tokensIn(Math.min(nowMs, this.#finishedMs) - this.#lastTextMs);
    return Math.round(this.#hiddenTokens + this.#tokensOfLastSilence() + sinceText);
  }

  #tokensIn(silentMs: number): number {
    return this.#speed.hiddenTokens(silentMs) * this.#choiceCount;
  }

  /** The text behind the last silence is known now. */
  #endBurst(): void {
    this.#hiddenTokens += this.#tokensOfLastSilence();
    this.#silenceTokens = 0;
  }

  #tokensOfLastSilence(): number {
    const burst = this.#textTokens - this.#silenceTokensBefore;
    const hidden = this.#silenceTokens - burst;
    return hidden > this.#silenceTokens * HIDDEN_SHARE_MIN ? hidden : 0;
  }
}
