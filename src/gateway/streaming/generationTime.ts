import type { RouteSpeed } from "../../routing/routeSpeeds.ts";

/** The shortest time that is looked at by itself. Text that comes in pieces is no sign of hidden generation. */
const WINDOW_MS = 2000;
/** A window hides generation if its text is less than this share of what the route generates in its time. */
const TEXT_SHARE_MAX = 0.5;

/**
 * Estimates hidden output, such as reasoning that is not sent or only summarized: elapsed time x speed of the route,
 * less the tokens that arrived. The time is cut into windows: from the request to the first text, and then of 2 s or
 * of a longer silence.
 */
export class GenerationTime {
  readonly #speed: RouteSpeed;
  readonly #choiceCount: number;
  readonly startedMs: number;
  #lastTextMs: number;
  #textTokens = 0;
  #windowMs: number;
  #windowTokens = 0;
  #hasText = false;
  /** The estimate of all closed windows, and the part of the last closed one. */
  #hiddenTokens = 0;
  #lastHidden = 0;
  /** When the provider said that the answer is complete. Silence behind it is no generation. */
  #finishedMs = Infinity;

  /** `startedMs`: when the request was sent, in monotonic time. */
  constructor(speed: RouteSpeed, choiceCount: number, startedMs: number) {
    this.#speed = speed;
    this.#choiceCount = choiceCount;
    this.startedMs = startedMs;
    this.#lastTextMs = startedMs;
    this.#windowMs = startedMs;
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
    const isGap = nowMs - this.#lastTextMs >= WINDOW_MS;
    // A gap has a window of its own.
    if (isGap && this.#hasText) this.#closeWindow(this.#lastTextMs, false);
    this.#textTokens = textTokens;
    this.#lastTextMs = nowMs;
    if (this.#hasText && !isGap && nowMs - this.#windowMs < WINDOW_MS) return;
    this.#closeWindow(nowMs, isGap);
    this.#hasText = true;
  }

  /** The provider said that the answer is complete. */
  finished(nowMs: number): void {
    this.#finishedMs = Math.min(this.#finishedMs, nowMs);
  }

  /** Nothing was generated since the last text: the client did not read, or the provider may have died. */
  skipTo(nowMs: number): void {
    this.#lastTextMs = nowMs;
    this.#windowMs = nowMs;
    this.#windowTokens = this.#textTokens;
  }

  /** The estimate of the hidden tokens of all choices until now. */
  hiddenTokens(nowMs: number): number {
    const endMs = Math.min(nowMs, this.#finishedMs);
    const silentMs = endMs - this.#lastTextMs;
    if (silentMs >= WINDOW_MS && this.#hasText) {
      const before = this.#hiddenIn(this.#lastTextMs - this.#windowMs, this.#windowText, false);
      return Math.round(this.#hiddenTokens + before + this.#hiddenIn(silentMs, 0, true));
    }
    const forMs = endMs - this.#windowMs;
    // An unfinished window counts as hidden if the window before it did.
    const isShort = forMs < WINDOW_MS && this.#lastHidden === 0;
    const hidden = isShort ? 0 : this.#hiddenIn(forMs, this.#windowText, silentMs >= WINDOW_MS);
    return Math.round(this.#hiddenTokens + hidden);
  }

  get #windowText(): number {
    return this.#textTokens - this.#windowTokens;
  }

  #closeWindow(nowMs: number, isGap: boolean): void {
    const forMs = nowMs - this.#windowMs;
    const text = this.#windowText;
    // Text that was generated during a silence arrives behind it, because it was buffered.
    const surplus = text - this.#generatedIn(forMs);
    if (surplus > 0) this.#hiddenTokens -= Math.min(surplus, this.#lastHidden);
    this.#lastHidden = this.#hiddenIn(forMs, text, isGap);
    this.#hiddenTokens += this.#lastHidden;
    this.#windowMs = nowMs;
    this.#windowTokens = this.#textTokens;
  }

  /** The hidden tokens of a window of `forMs` with `text` tokens. `isGap`: the text arrived only at its end. */
  #hiddenIn(forMs: number, text: number, isGap: boolean): number {
    // Slow text alone is no sign of hidden generation: a provider may be busy.
    const { isKnown, hidesGeneration } = this.#speed;
    if (this.#hasText && !isGap && !hidesGeneration) return 0;
    if (this.#hasText && text > 0 && !isKnown) return 0;
    const generated = this.#generatedIn(forMs);
    return text < generated * TEXT_SHARE_MAX ? generated - text : 0;
  }

  /** The tokens that the route generates in this time. A part of the wait for the first text is no generation. */
  #generatedIn(forMs: number): number {
    if (!this.#hasText) return this.#speed.hiddenTokens(forMs) * this.#choiceCount;
    return (forMs / 1000) * this.tokensPerSecond;
  }
}
