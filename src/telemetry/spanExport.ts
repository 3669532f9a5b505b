import { errorClass, type Log, type LogFields } from "./log.ts";
import type { Metrics } from "./metrics.ts";

/** Sends a body to the collector. Resolves with the HTTP status. Rejects if there is none in time. */
export interface Collector {
  /** The address of the collector, for the log. */
  readonly address: string;
  post(body: string): Promise<number>;
  close(): void;
}

/** Spans that wait for the collector. A span has about 1 KB. Further ones are lost. */
const WAITING_SPANS_MAX = 4096;
const BATCH_SPANS_MAX = 512;
/** How long a span waits for others. */
const BATCH_WAIT_MS = 1000;
/** The pause after a failure. Each further failure doubles it, up to the maximum. */
const PAUSE_MS = 1000;
const PAUSE_MS_MAX = 30_000;
/** The time to send the last spans when the gateway stops. */
const CLOSE_TIMEOUT_MS = 3000;

/** The collector may accept the same spans later: https://opentelemetry.io/docs/specs/otlp/#retryable-response-codes */
const TEMPORARY_STATUSES: ReadonlySet<number> = new Set([408, 429, 502, 503, 504]);

/**
 * Sends spans in batches, one batch at a time. Spans wait in memory while the collector is down, up to a limit. An outage
 * is logged once, and its end once.
 */
export class SpanExport {
  readonly #collector: Collector;
  readonly #bodyOf: (spans: readonly string[]) => string;
  readonly #log: Log;
  readonly #metrics: Metrics;
  readonly #waiting: string[] = [];
  #timer: Timer | undefined;
  #sending: Promise<void> | undefined;
  #pauseMs = 0;
  #isOutage = false;
  #lostInOutage = 0;
  #isClosing = false;
  #isClosed = false;

  constructor(
    collector: Collector,
    bodyOf: (spans: readonly string[]) => string,
    { log, metrics }: { log: Log; metrics: Metrics },
  ) {
    this.#collector = collector;
    this.#bodyOf = bodyOf;
    this.#log = log;
    this.#metrics = metrics;
  }

  /** Adds a span in its JSON form. It is lost if too many wait. */
  add(span: string): void {
    const isFull = this.#waiting.length >= WAITING_SPANS_MAX;
    if (isFull || this.#isClosing) {
      this.#lose(1, { problem: isFull ? "too many spans wait" : "the gateway stops" });
      return;
    }
    this.#waiting.push(span);
    if (this.#sending) return;
    if (this.#timer === undefined) this.#sendIn(this.#pauseMs || BATCH_WAIT_MS);
    // Once, when the batch becomes full: a timer that each span sets again would never fire.
    else if (this.#waiting.length === BATCH_SPANS_MAX && !this.#isOutage) this.#sendIn(0);
  }

  /** Sends what waits until a batch fails. What is not sent within three seconds is lost. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearTimeout(this.#timer);
    const isOver = Bun.sleep(CLOSE_TIMEOUT_MS);
    await Promise.race([isOver, this.#sending]);
    await Promise.race([isOver, this.#send(1)]);
    this.#isClosed = true;
    const left = this.#waiting.splice(0).length;
    if (left > 0) this.#lose(left, { problem: "the gateway stops" });
    this.#collector.close();
  }

  #sendIn(afterMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#sending = this.#sendWaiting();
    }, afterMs);
    this.#timer.unref();
  }

  async #sendWaiting(): Promise<void> {
    await this.#send(BATCH_SPANS_MAX);
    this.#sending = undefined;
    if (this.#waiting.length > 0 && !this.#isClosing) this.#sendIn(this.#pauseMs || BATCH_WAIT_MS);
  }

  /** Sends a batch, and further ones while at least `spansMin` spans wait, until one fails. Never rejects. */
  async #send(spansMin: number): Promise<void> {
    if (this.#waiting.length === 0) return;
    do {
      const batch = this.#waiting.slice(0, BATCH_SPANS_MAX);
      const failure = await this.#failureOf(batch);
      if (this.#isClosed) return;
      if (!failure?.isTemporary) this.#waiting.splice(0, batch.length);
      if (failure) {
        if (!failure.isTemporary) this.#lose(batch.length, failure.fields);
        this.#beginOutage(failure.fields);
        this.#pauseMs = Math.min(Math.max(this.#pauseMs * 2, PAUSE_MS), PAUSE_MS_MAX);
        return;
      }
      this.#accepted();
    } while (this.#waiting.length >= spansMin);
  }

  async #failureOf(
    batch: readonly string[],
  ): Promise<{ isTemporary: boolean; fields: LogFields } | undefined> {
    try {
      const status = await this.#collector.post(this.#bodyOf(batch));
      if (status >= 200 && status < 300) return undefined;
      return { isTemporary: TEMPORARY_STATUSES.has(status), fields: { status } };
    } catch (error) {
      return { isTemporary: true, fields: { error: errorClass(error) } };
    }
  }

  #lose(count: number, fields: LogFields): void {
    this.#metrics.spansLost(count);
    this.#lostInOutage += count;
    this.#beginOutage(fields);
  }

  #beginOutage(fields: LogFields): void {
    if (this.#isOutage) return;
    this.#isOutage = true;
    this.#log.warn("trace_collector_unusable", {
      address: this.#collector.address,
      ...fields,
    });
  }

  /** An outage is over when the collector has taken the spans that waited. */
  #accepted(): void {
    this.#pauseMs = 0;
    if (!this.#isOutage || this.#waiting.length >= BATCH_SPANS_MAX) return;
    this.#isOutage = false;
    this.#log.info("the trace collector accepts spans again", { count: this.#lostInOutage });
    this.#lostInOutage = 0;
  }
}
