import { Deadline, type Deadlines } from "../../lib/clock.ts";

/** A client that reads nothing for this time counts as disconnected, in milliseconds. */
export const CLIENT_STALL_MS = 120_000;
/** A failure during a pause of this length, or right after it, is attributed to the client. */
const PAUSE_MS = 1000;
/** A client that pauses for this share of a stream's time is slow. */
const PAUSE_SHARE = 0.1;
/** The capacity of the bucket of pause time. */
const BUCKET_MS_MAX = 3000;
/** Data that arrives sooner than this after the last was probably buffered. That time drains the bucket slower. */
const BUFFERED_MS = 10;
const BUFFERED_SHARE = 0.25;
/** The bucket is empty at the latest after this multiple of its content. */
const DRAIN_FACTOR = 1.5;
/** The outcomes of a provider that gave up on a slow reader. */
const GIVE_UP_OUTCOMES: ReadonlySet<string> = new Set(["incomplete answer", "closed"]);

/**
 * Records the pauses of a client that reads slowly, and decides whether a failure of the provider was caused by them.
 *
 * A provider that gives up during a pause is noticed late, because buffered data is read first. Pauses are therefore kept in
 * a leaky bucket: each adds its length, and reading drains it, slower while the data comes out of buffers. While a second is
 * left in the bucket, a provider that gives up is attributed to the client.
 */
export class ClientBackpressure {
  readonly #deadlines: Deadlines;
  readonly #onStall: () => void;
  /** Made at the first pause: most streams have none. */
  #stall: Deadline | undefined;
  readonly #startedMs: number;
  #hasEnded = false;
  #pauseDepth = 0;
  #pausedSinceMs: number;
  #lastPauseMs = 0;
  #totalPausedMs = 0;
  /** The content of the bucket at `#drainedAtMs`. */
  #bucketMs = 0;
  #drainedAtMs: number;
  /** When the bucket is empty at the latest. */
  #emptyAtMs: number;

  /** `onStall` is called when the client has read nothing for `CLIENT_STALL_MS`. */
  constructor(deadlines: Deadlines, onStall: () => void) {
    this.#deadlines = deadlines;
    this.#onStall = onStall;
    this.#startedMs = deadlines.clock.monotonicMs();
    this.#pausedSinceMs = this.#startedMs;
    this.#drainedAtMs = this.#startedMs;
    this.#emptyAtMs = this.#startedMs;
  }

  /** The client stopped reading. Calls may be nested. */
  pause(): void {
    this.#pauseDepth += 1;
    if (this.#hasEnded || this.#pauseDepth > 1) return;
    this.#pausedSinceMs = this.#deadlines.clock.monotonicMs();
    this.#drain(this.#pausedSinceMs);
    this.#stall ??= new Deadline(this.#deadlines, this.#onStall);
    this.#stall.setAt(this.#pausedSinceMs + CLIENT_STALL_MS);
  }

  /** The client reads again. Returns the length of the pause in milliseconds, 0 for a nested one. */
  resume(): number {
    this.#pauseDepth -= 1;
    if (this.#pauseDepth !== 0) return 0;
    this.#stall?.suspend();
    this.#drainedAtMs = this.#deadlines.clock.monotonicMs();
    this.#lastPauseMs = this.#drainedAtMs - this.#pausedSinceMs;
    this.#totalPausedMs += this.#lastPauseMs;
    this.#bucketMs = Math.min(this.#bucketMs + this.#lastPauseMs, BUCKET_MS_MAX);
    this.#emptyAtMs = this.#drainedAtMs + DRAIN_FACTOR * this.#bucketMs;
    return this.#lastPauseMs;
  }

  get isPausing(): boolean {
    return this.#pauseDepth > 0;
  }

  /** The pauses took so much of the stream's time that its duration says little of the provider. */
  get isSlow(): boolean {
    const nowMs = this.#deadlines.clock.monotonicMs();
    const openPauseMs = this.#pauseDepth > 0 ? nowMs - this.#pausedSinceMs : 0;
    const allPausesMs = this.#totalPausedMs + openPauseMs;
    return allPausesMs >= Math.max(PAUSE_MS, (nowMs - this.#startedMs) * PAUSE_SHARE);
  }

  onData(): void {
    this.#lastPauseMs = 0;
    if (this.#bucketMs > 0 && this.#pauseDepth === 0)
      this.#drain(this.#deadlines.clock.monotonicMs());
  }

  /** Whether the client's pauses caused a failure with this outcome now. */
  causedFailure(outcome: string): boolean {
    const nowMs = this.#deadlines.clock.monotonicMs();
    const openPauseMs = this.#pauseDepth > 0 ? nowMs - this.#pausedSinceMs : 0;
    if (Math.max(this.#lastPauseMs, openPauseMs) >= PAUSE_MS) return true;
    if (this.#pauseDepth === 0) this.#drain(nowMs);
    return this.#bucketMs + openPauseMs >= PAUSE_MS && GIVE_UP_OUTCOMES.has(outcome);
  }

  stop(): void {
    this.#hasEnded = true;
    this.#stall?.clear();
  }

  /** Drains the bucket by the reading time since the last call. */
  #drain(nowMs: number): void {
    const forMs = nowMs - this.#drainedAtMs;
    const lessMs = forMs < BUFFERED_MS ? forMs * BUFFERED_SHARE : forMs;
    const leftMs = Math.max(this.#bucketMs - lessMs, 0);
    this.#bucketMs = nowMs >= this.#emptyAtMs ? 0 : leftMs;
    this.#drainedAtMs = nowMs;
  }
}
