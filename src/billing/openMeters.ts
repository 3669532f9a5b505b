import type { Clock } from "../lib/clock.ts";

/** A request that is open for this time gets its row before it ends. */
const LATE_ROW_MS = 1000;
/** The rows of requests that began within this time are written together. */
const LATE_ROW_GROUP_MS = 50;

/** What is needed of a meter. Times are monotonic. */
interface OpenMeter {
  readonly requestId: string;
  readonly startedMs: number;
  /** When the request is overdue, but for `allowedMoreMs`. */
  readonly dueMs: number;
  readonly allowedMoreMs: number;
  readonly isSettling: boolean;
  abandon(): Promise<void>;
  writeRow(): void;
}

/**
 * The meters of all open requests. The path of a request settles its meter. A bug could leave one open, which would hold
 * the account's money until the next start, so leaked meters are looked for. A request that is open for a second gets
 * its row.
 */
export class OpenMeters {
  readonly #clock: Clock;
  /** The oldest first. */
  readonly #open = new Set<OpenMeter>();
  #overdue: ReadonlySet<OpenMeter> = new Set();
  #rowTimer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(meter: OpenMeter): void {
    this.#open.add(meter);
    if (this.#rowTimer === undefined) this.#writeRowsIn(LATE_ROW_MS);
  }

  remove(meter: OpenMeter): void {
    this.#open.delete(meter);
  }

  /** Open meters, those that are settling included. */
  get count(): number {
    return this.#open.size;
  }

  /** Meters that wait for their settlement to be committed. */
  get settlingCount(): number {
    return this.#open.values().reduce((sum, { isSettling }) => sum + (isSettling ? 1 : 0), 0);
  }

  /**
   * Settles meters as failed that were overdue at the previous call too. After a standstill of the process the requests'
   * own time limits act first. Nothing is charged. Returns the request ids.
   */
  settleLeaked(): readonly string[] {
    const nowMs = this.#clock.monotonicMs();
    const late = [...this.#open].filter(
      ({ dueMs, allowedMoreMs }) => dueMs + allowedMoreMs <= nowMs,
    );
    const leaked = late.filter((meter) => this.#overdue.has(meter));
    this.#overdue = new Set(late);
    for (const meter of leaked) {
      this.#open.delete(meter);
      void meter.abandon();
    }
    return leaked.map(({ requestId }) => requestId);
  }

  #writeRowsIn(afterMs: number): void {
    this.#rowTimer = setTimeout(() => this.#writeRows(), afterMs).unref();
  }

  #writeRows(): void {
    this.#rowTimer = undefined;
    const nowMs = this.#clock.monotonicMs();
    for (const meter of this.#open) {
      const waitMs = meter.startedMs + LATE_ROW_MS - nowMs;
      if (waitMs > 0) {
        this.#writeRowsIn(Math.max(waitMs, LATE_ROW_GROUP_MS));
        return;
      }
      meter.writeRow();
    }
  }
}
