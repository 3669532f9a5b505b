import { Deadline } from "../../lib/clock.ts";
import { generatedTokensOf } from "../billedUsage.ts";
import type { AnswerDecoder } from "../decoding/answerDecoder.ts";
import type { AdmittedScope } from "../requestScope.ts";
import type { GenerationTime } from "./generationTime.ts";

/** An answer whose rest is likely short may take this multiple of `disconnect_grace`. */
const LONG_GRACE_FACTOR = 4;
/** A route that is not known to live may take this multiple of `disconnect_grace` for a sign of life. */
const LIFE_GRACE_FACTOR = 30;
/** The rest is short if its bound of tokens takes at most this multiple of `disconnect_grace`. */
const SHORT_REST_FACTOR = 2;

/**
 * Reads an answer on after its client left, because the usage at its end is exact, and decides when to give up:
 * - after `disconnect_grace`, as usual. The text that has arrived by then is counted, which is about as exact as a usage;
 * - after a longer time where the rest is likely short, or where only a usage tells the size of the prompt;
 * - at the first sign of life of a route that is not known to live. Without one nothing is charged: a dead provider
 *   generates nothing;
 * - not at all, if the account leaves far more often than others: the answer is read to its end.
 */
export class Leave {
  readonly #scope: AdmittedScope;
  readonly #decoder: AnswerDecoder;
  readonly #generation: GenerationTime;
  /** Made when the client leaves. */
  #grace: Deadline | undefined;
  readonly #giveUp: (isBillable: boolean) => void;
  #leftAtMs = 0;
  #hasLeft = false;
  #isLong = false;
  #awaitsLife = false;
  #hasHead = false;
  /** Gives back the place among the answers that are read on. */
  #release: (() => void) | undefined;

  constructor(
    scope: AdmittedScope,
    decoder: AnswerDecoder,
    generation: GenerationTime,
    giveUp: (isBillable: boolean) => void,
  ) {
    this.#scope = scope;
    this.#decoder = decoder;
    this.#generation = generation;
    this.#giveUp = giveUp;
  }

  begin(): void {
    const { gateway, caller } = this.#scope;
    this.#hasLeft = true;
    this.#leftAtMs = gateway.clock.monotonicMs();
    if (gateway.leftAnswers.leavesOften(caller.accountId) && this.#takePlace()) return;
    this.#wait(this.#graceMs);
  }

  /** The head of the answer arrived: the provider lives. */
  headArrived(): void {
    this.#hasHead = true;
    if (this.#awaitsLife) this.#giveUp(true);
  }

  end(): void {
    const { gateway, caller } = this.#scope;
    this.#grace?.clear();
    this.#release?.();
    // A failed attempt is no answer.
    if (!this.#hasLeft && !this.#decoder.hasContent) return;
    const nowMs = gateway.clock.monotonicMs();
    gateway.leftAnswers.ended({ accountId: caller.accountId, hasLeft: this.#hasLeft }, nowMs);
  }

  #wait(forMs: number): void {
    this.#grace ??= new Deadline(this.#scope.gateway.deadlines, () => this.#graceEnded());
    this.#grace.set(forMs);
  }

  get #graceMs(): number {
    return this.#scope.snapshot.config.billing.disconnectGraceMs;
  }

  #graceEnded(): void {
    if (!this.#isLong && this.#isWorthWaiting() && this.#takePlace()) {
      this.#isLong = true;
      this.#wait(this.#graceMs * (LONG_GRACE_FACTOR - 1));
      return;
    }
    if (this.#isKnownToLive()) return this.#giveUp(true);
    if (this.#awaitsLife) return this.#giveUp(false);
    this.#awaitsLife = this.#takePlace();
    if (this.#awaitsLife) this.#wait(this.#graceMs * LIFE_GRACE_FACTOR);
    else this.#giveUp(true);
  }

  #isWorthWaiting(): boolean {
    const decoder = this.#decoder;
    if (decoder.isUsageFinal) return false;
    if (decoder.isFinished || (this.#scope.checked.attachmentTokens > 0 && !decoder.usage))
      return true;
    // The text ended, and its usage follows; or the model reasons.
    const isSilent = decoder.hasContent && this.#generation.lastTextMs < this.#leftAtMs;
    return isSilent || this.#restMs() <= this.#graceMs * SHORT_REST_FACTOR;
  }

  /** The longest time that the rest of the answer can take. */
  #restMs(): number {
    const { admitted, gateway } = this.#scope;
    const nowMs = gateway.clock.monotonicMs();
    const generated = generatedTokensOf(this.#decoder, this.#generation.hiddenTokens(nowMs));
    const restTokens = admitted.tokenLimits.completionTokens - generated;
    return (restTokens / this.#generation.tokensPerSecond) * 1000;
  }

  #isKnownToLive(): boolean {
    return this.#hasHead || this.#generation.isAlive;
  }

  #takePlace(): boolean {
    this.#release ??= this.#scope.gateway.leftAnswers.take();
    return this.#release !== undefined;
  }
}
