import { type Clock, Deadline } from "../../lib/clock.ts";

/** A client that reads nothing for so long has gone away. */
export const CLIENT_STALL_MS = 120_000;
/** A failure amid a pause of the client's of so long, or right behind it, is the pause's and not the provider's. */
const PAUSE_MS = 1000;
/** A time-out is also the client's doing when its pauses together took this share of the stream's time. */
const PAUSE_SHARE = 0.1;
/** The most that the bucket holds. */
const REMEMBERED_MS_MAX = 3000;
/** A piece that comes sooner than this behind the last had most likely waited in a buffer: such time counts by `WAITED_SHARE` only. */
const WAITS_MS = 10;
const WAITED_SHARE = 0.25;
/** Once a client has read for this many times what the bucket holds it is empty, however quick its provider is. */
const READING_SHARE = 1.5;
/** How it looks when a provider gave up. */
const GIVEN_UP: ReadonlySet<string> = new Set(["timeout", "cut", "closed"]);

/**
 * How a client keeps up with its stream: who pauses holds its provider up.
 *
 * A provider that gave up amid a pause is heard of late: what it had sent before waits in buffers, and comes first once
 * the client reads again. So pauses are remembered in a leaky bucket: each pours in how long it was, and the client's
 * reading lets it run out, slower while the pieces come out of buffers. While a second is left in it, that a provider
 * gave up is the client's doing.
 */
export class ClientBackpressure {
  readonly #clock: Clock;
  readonly #stall: Deadline;
  readonly #startedMs: number;
  #isOver = false;
  #openPauses = 0;
  #pausesSinceMs: number;
  #lastPauseMs = 0;
  #pastPausesMs = 0;
  /** What the bucket holds, as of `#readUntilMs`. */
  #rememberedMs = 0;
  #readUntilMs: number;
  /** When the bucket is empty at the latest, if the client does not pause again. */
  #forgottenAtMs: number;

  /** `onStall` is called when the client has read nothing for `CLIENT_STALL_MS`. */
  constructor(clock: Clock, onStall: () => void) {
    this.#clock = clock;
    this.#stall = new Deadline(clock, onStall);
    this.#startedMs = clock.monotonicMs();
    this.#pausesSinceMs = this.#startedMs;
    this.#readUntilMs = this.#startedMs;
    this.#forgottenAtMs = this.#startedMs;
  }

  /** The client does not take what it was sent. */
  pause(): void {
    this.#openPauses += 1;
    if (this.#isOver || this.#openPauses > 1) return;
    this.#pausesSinceMs = this.#clock.monotonicMs();
    this.#reads(this.#pausesSinceMs);
    this.#stall.setAt(this.#pausesSinceMs + CLIENT_STALL_MS);
  }

  /** The client has taken it; as often as it has paused. Returns how long a pause was that is over now. */
  resume(): number {
    this.#openPauses -= 1;
    if (this.#openPauses !== 0) return 0;
    this.#stall.rest();
    this.#readUntilMs = this.#clock.monotonicMs();
    this.#lastPauseMs = this.#readUntilMs - this.#pausesSinceMs;
    this.#pastPausesMs += this.#lastPauseMs;
    this.#rememberedMs = Math.min(this.#rememberedMs + this.#lastPauseMs, REMEMBERED_MS_MAX);
    this.#forgottenAtMs = this.#readUntilMs + READING_SHARE * this.#rememberedMs;
    return this.#lastPauseMs;
  }

  get isPausing(): boolean {
    return this.#openPauses > 0;
  }

  /** Something came of the provider, be it that it waited in buffers for the end of a pause. */
  goesOn(): void {
    this.#lastPauseMs = 0;
    if (this.#rememberedMs > 0 && this.#openPauses === 0) this.#reads(this.#clock.monotonicMs());
  }

  /** Whether a failure now is the client's doing. */
  explains(outcome: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    const openPauseMs = this.#openPauses > 0 ? nowMs - this.#pausesSinceMs : 0;
    if (Math.max(this.#lastPauseMs, openPauseMs) >= PAUSE_MS) return true;
    if (this.#openPauses === 0) this.#reads(nowMs);
    if (this.#rememberedMs + openPauseMs >= PAUSE_MS && GIVEN_UP.has(outcome)) return true;
    const allPausesMs = this.#pastPausesMs + openPauseMs;
    const isSlow = allPausesMs >= Math.max(PAUSE_MS, (nowMs - this.#startedMs) * PAUSE_SHARE);
    return outcome === "timeout" && isSlow;
  }

  /** The stream is over. */
  stop(): void {
    this.#isOver = true;
    this.#stall.clear();
  }

  /** What the client has read since the last look runs out of the bucket. */
  #reads(nowMs: number): void {
    const forMs = nowMs - this.#readUntilMs;
    const lessMs = forMs < WAITS_MS ? forMs * WAITED_SHARE : forMs;
    const leftMs = Math.max(this.#rememberedMs - lessMs, 0);
    this.#rememberedMs = nowMs >= this.#forgottenAtMs ? 0 : leftMs;
    this.#readUntilMs = nowMs;
  }
}
