/** How many answers at once are read on after their clients disconnected, beyond `disconnect_grace`. */
const LEFT_MAX = 1024;
/** An account with fewer disconnects is not judged. */
const LEAVES_MIN = 20;
/** An account leaves often if it left this share of its answers, */
const OFTEN_SHARE = 0.5;
/** and this many times the share of all other accounts together. */
const OFTEN_FACTOR = 3;
/** How long an answer counts, in milliseconds. */
const COUNTED_MS = 3_600_000;
/** Beyond this number of accounts the oldest is forgotten. */
const ACCOUNTS_MAX = 10_000;

/** Answers of the last hour or so, and those of them whose client left. */
interface Leaves {
  ended: number;
  left: number;
  /** When the counts were last halved, in monotonic time. */
  sinceMs: number;
}

/** A streamed answer that ended. `hasLeft`: its client disconnected before. */
export interface EndedStream {
  readonly accountId: number;
  readonly hasLeft: boolean;
}

/**
 * Answers whose clients disconnected. The gateway reads some of them on, because the usage at their end is exact. It bounds
 * how many, and knows which accounts leave far more often than others.
 */
export class LeftAnswers {
  /** Answers that are read on now. */
  count = 0;
  readonly #most: number;
  readonly #tell: (ended: EndedStream) => void;
  readonly #accounts = new Map<number, Leaves>();
  readonly #all: Leaves = { ended: 0, left: 0, sinceMs: 0 };

  /** `processes`: so many processes of the gateway share the places. `tell` tells the others. */
  constructor(processes = 1, tell: (ended: EndedStream) => void = () => {}) {
    this.#tell = tell;
    this.#most = Math.floor(LEFT_MAX / processes);
  }

  /** Takes a place to read one answer on. Returns a function that gives it back once; undefined if there is none. */
  take(): (() => void) | undefined {
    if (this.count >= this.#most) return undefined;
    this.count += 1;
    let isTaken = true;
    return () => {
      if (isTaken) this.count -= 1;
      isTaken = false;
    };
  }

  /** A streamed answer ended. */
  ended(stream: EndedStream, nowMs: number): void {
    this.hear(stream, nowMs);
    this.#tell(stream);
  }

  /** A streamed answer of another process ended. */
  hear({ accountId, hasLeft }: EndedStream, nowMs: number): void {
    const account = this.#accounts.get(accountId) ?? { ended: 0, left: 0, sinceMs: nowMs };
    this.#accounts.delete(accountId);
    this.#accounts.set(accountId, account);
    if (this.#accounts.size > ACCOUNTS_MAX) {
      for (const oldest of this.#accounts.keys()) {
        this.#accounts.delete(oldest);
        break;
      }
    }
    for (const leaves of [account, this.#all]) {
      if (nowMs - leaves.sinceMs > COUNTED_MS) {
        Object.assign(leaves, { ended: leaves.ended / 2, left: leaves.left / 2, sinceMs: nowMs });
      }
      leaves.ended += 1;
      if (hasLeft) leaves.left += 1;
    }
  }

  /** Whether the account leaves far more often than the others. Without others there is nothing to compare with. */
  leavesOften(accountId: number): boolean {
    const { ended, left } = this.#accounts.get(accountId) ?? { ended: 0, left: 0 };
    if (left < LEAVES_MIN || left < ended * OFTEN_SHARE) return false;
    const others = { ended: this.#all.ended - ended, left: this.#all.left - left };
    if (others.ended < LEAVES_MIN) return false;
    return left / ended >= OFTEN_FACTOR * (others.left / others.ended);
  }
}
