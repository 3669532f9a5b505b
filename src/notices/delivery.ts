import type { Clock } from "../lib/clock.ts";
import { idMaker, type NewId, type Random } from "../lib/random.ts";
import { errorClass, type Log, type LogFields } from "../telemetry/log.ts";
import type { AttemptFailure, AttemptOptions, Notice, NoticeMessage } from "./notice.ts";
import { hostOf, type Recipient } from "./recipients.ts";
import { sendWebhook } from "./webhook.ts";

/** The pauses between the attempts at one recipient: seven attempts in about 45 minutes. */
const PAUSES_MS = [1000, 5000, 30_000, 120_000, 600_000, 1_800_000];
/** A pause is longer by up to this part, so that many notices do not return at once. */
const JITTER = 0.2;
/** The most notices to single recipients that wait. Further ones are lost. */
const WAITING_MAX = 1000;
/** A notice that waits for longer is given up. A cause that still holds is told again after an hour. */
const LIFE_MS = 55 * 60_000;
/** The most attempts at the same time, each at another receiver. */
const ATTEMPTS_MAX = 64;
/** The time for the last attempts when the gateway stops. */
const CLOSE_TIMEOUT_MS = 3000;

/** What tests replace. */
export interface DeliveryEdges {
  /** Calls `run` after a time. Returns a function that prevents it. The timer does not keep the process alive. */
  pause(afterMs: number, run: () => void): () => void;
  readonly attemptTimeoutsMs: typeof ATTEMPT_TIMEOUTS_MS;
  readonly closeTimeoutMs: number;
}

const systemPause: DeliveryEdges["pause"] = (afterMs, run) => {
  const timer = setTimeout(run, afterMs).unref();
  return () => clearTimeout(timer);
};

interface QueuedNotice {
  readonly recipient: Recipient;
  /** At one receiver there is one attempt at a time. */
  readonly receiver: string;
  readonly progress: NoticeProgress;
  attempts: number;
}

interface NoticeProgress {
  readonly message: NoticeMessage;
  /** In monotonic time. */
  readonly endsMs: number;
  readonly settled: (isDelivered: boolean) => void;
  readonly total: number;
  /** Recipients that have neither taken it nor were given up. */
  open: number;
  delivered: number;
  /** The log fields of the first recipient that was given up. */
  problem: LogFields | undefined;
}

/**
 * Sends notices in the background. Nothing waits for it: `send` only adds to a queue in memory. Recipients do not wait for
 * each other, and a receiver that is slow or down delays its own notices only.
 */
export class Delivery {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #log: Log;
  readonly #edges: DeliveryEdges;
  readonly #newId: NewId;
  readonly #ready: QueuedNotice[] = [];
  /** Queued notices between two attempts, with what ends the pause. */
  readonly #paused = new Map<QueuedNotice, () => void>();
  /** Receivers with an attempt in progress. */
  readonly #inUse = new Map<string, QueuedNotice>();
  readonly #closing = new AbortController();
  #isClosing = false;
  /** Notices that at least one recipient did not get because of `close`. */
  #lostCount = 0;
  #onIdle: (() => void) | undefined;

  constructor(
    { clock, random, log }: { clock: Clock; random: Random; log: Log },
    edges: Partial<DeliveryEdges> = {},
  ) {
    this.#clock = clock;
    this.#random = random;
    this.#log = log;
    this.#newId = idMaker(clock, random);
    this.#edges = {
      pause: systemPause,
      attemptTimeoutsMs: ATTEMPT_TIMEOUTS_MS,
      closeTimeoutMs: CLOSE_TIMEOUT_MS,
      ...edges,
    };
  }

  /**
   * Queues the notice for each recipient. Never throws and never waits. `settled` is called once, when every recipient took
   * the notice or was given up: with true if at least one took it. Without recipients it gets false. It must not throw.
   */
  send(
    notice: Notice,
    recipients: readonly Recipient[],
    settled: (isDelivered: boolean) => void = () => {},
  ): void {
    const progress: NoticeProgress = {
      message: { id: this.#newId("ntc"), notice },
      endsMs: this.#clock.monotonicMs() + LIFE_MS,
      settled,
      total: recipients.length,
      open: recipients.length,
      delivered: 0,
      problem: undefined,
    };
    if (recipients.length === 0) settled(false);
    for (const recipient of recipients) {
      const queued = { recipient, receiver: receiverOf(recipient), progress, attempts: 0 };
      if (this.#isClosing) this.#giveUp(queued, { problem: "the gateway stops" });
      else if (this.#ready.length + this.#paused.size >= WAITING_MAX)
        this.#giveUp(queued, { problem: "too many notices wait" });
      else this.#ready.push(queued);
    }
    this.#sendReady();
  }

  /** Makes one last attempt for the notices that wait. Those that are not delivered within three seconds are lost. */
  async close(): Promise<void> {
    if (this.#isClosing) return;
    this.#isClosing = true;
    for (const [queued, end] of this.#paused) {
      end();
      this.#ready.push(queued);
    }
    this.#paused.clear();
    this.#sendReady();
    await this.#untilIdle();
    for (const queued of [...this.#ready.splice(0), ...this.#inUse.values()])
      this.#giveUp(queued, { problem: "the gateway stops" });
    this.#closing.abort();
    if (this.#lostCount > 0)
      this.#log.warn("notice_not_delivered", {
        problem: "the gateway stops",
        count: this.#lostCount,
      });
  }

  async #untilIdle(): Promise<void> {
    const idle = Promise.withResolvers<void>();
    this.#onIdle = idle.resolve;
    const timer = setTimeout(idle.resolve, this.#edges.closeTimeoutMs);
    if (this.#inUse.size === 0) idle.resolve();
    await idle.promise;
    clearTimeout(timer);
  }

  /** Starts the attempts that may start now. */
  #sendReady(): void {
    while (this.#inUse.size < ATTEMPTS_MAX) {
      const at = this.#ready.findIndex(({ receiver }) => !this.#inUse.has(receiver));
      const [queued] = at < 0 ? [] : this.#ready.splice(at, 1);
      if (queued === undefined) break;
      if (this.#clock.monotonicMs() >= queued.progress.endsMs) {
        this.#giveUp(queued, { problem: "it waited for too long" });
        continue;
      }
      this.#inUse.set(queued.receiver, queued);
      void this.#attempt(queued);
    }
    if (this.#inUse.size === 0) this.#onIdle?.();
  }

  /** Never rejects. */
  async #attempt(queued: QueuedNotice): Promise<void> {
    const { recipient, progress } = queued;
    queued.attempts += 1;
    const outcome = await attemptNotice(progress.message, recipient, {
      clock: this.#clock,
      timeoutMs: this.#edges.attemptTimeoutsMs[recipient.kind],
      signal: this.#closing.signal,
    }).catch((error: unknown) => errorClass(error));
    // `close` has given the notice up.
    if (this.#closing.signal.aborted) return;
    this.#inUse.delete(queued.receiver);
    if (outcome === undefined) {
      progress.delivered += 1;
      this.#end(progress);
    } else this.#failed(queued, outcome);
    this.#sendReady();
  }

  #failed(queued: QueuedNotice, failure: AttemptFailure | string): void {
    const pauseMs = PAUSES_MS[queued.attempts - 1];
    const isFinal = typeof failure === "string" || failure.isFinal;
    if (isFinal || this.#isClosing || pauseMs === undefined)
      return this.#giveUp(queued, fieldsOf(failure));
    const afterMs = pauseMs * (1 + JITTER * this.#random.fraction());
    const end = this.#edges.pause(afterMs, () => {
      this.#paused.delete(queued);
      this.#ready.push(queued);
      this.#sendReady();
    });
    this.#paused.set(queued, end);
  }

  #giveUp({ recipient, progress, attempts }: QueuedNotice, problem: LogFields): void {
    progress.problem ??= { address: hostOf(recipient), attempts, ...problem };
    this.#end(progress);
  }

  /** One recipient took the notice or was given up. */
  #end(progress: NoticeProgress): void {
    progress.open -= 1;
    if (progress.open > 0) return;
    const { message, delivered, total, problem, settled } = progress;
    const fields = { notice: message.notice.type };
    if (problem === undefined) this.#log.info("notice delivered", { ...fields, count: total });
    else if (this.#isClosing) this.#lostCount += 1;
    else {
      const count = total - delivered;
      this.#log.warn("notice_not_delivered", { ...fields, ...problem, count, total });
    }
    settled(delivered > 0);
  }
}

function receiverOf(recipient: Recipient): string {
  if (recipient.kind === "webhook") return recipient.url;
  return `${recipient.server.host} ${recipient.server.port}`;
}

function fieldsOf(failure: AttemptFailure | string): LogFields {
  if (typeof failure === "string") return { error: failure };
  const { reason, status } = failure;
  return { outcome: reason, ...(status === undefined ? {} : { status }) };
}

/** The time for one whole attempt. Some mail servers greet late on purpose. */
export const ATTEMPT_TIMEOUTS_MS: Readonly<Record<Recipient["kind"], number>> = {
  webhook: 10_000,
  email: 30_000,
};

/** Sends a notice to one recipient, once. Resolves with the failure, if any. Rejects only for a bug. */
export async function attemptNotice(
  message: NoticeMessage,
  recipient: Recipient,
  options: AttemptOptions,
): Promise<AttemptFailure | undefined> {
  if (recipient.kind === "webhook") return sendWebhook(message, recipient, options);
  // Loaded on demand, because most gateways send no mails.
  const { sendMail } = await import("./mail.ts");
  return sendMail(message, recipient, options);
}
