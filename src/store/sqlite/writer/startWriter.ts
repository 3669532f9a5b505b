import { systemClock, type Clock } from "../../../lib/clock.ts";
import type { BatchOutcome } from "../../writer/outcome.ts";
import { WriteQueue } from "../../writer/writeQueue.ts";
import {
  COMMIT_WITHIN_MS,
  type BatchTransport,
  type OutgoingBatch,
  type Writer,
} from "../../writer/writer.ts";
import { encodeBatch } from "../../writer/writerMessages.ts";
import type { Interrupted } from "../interruptRunning.ts";
import { startWorker } from "../workers.ts";
import type {
  SentOutcome,
  WriterBatch,
  WriterClose,
  WriterEnd,
  WriterMessage,
  WriterStart,
} from "./writer.ts";

export type { SentOutcome } from "./writer.ts";

/**
 * While more operations than this wait at the end of a commit, the next one starts this much later, so that more of them
 * share it. A commit costs as much as ten rows.
 */
const FEW_OPERATIONS = 4;
const PACE_MS = 2;

/** The replica of a gateway that serves by itself. Its serving processes have other numbers. */
const OWN_REPLICA = 0;

/**
 * Starts the Worker with a writer for this process alone. `onFatal` is called after an I/O error or a crash: the process must
 * stop. The promises of open writes never settle then. `onCommit` gets the time of each batch and must not throw.
 */
export function startWriter(
  options: WriterStart,
  onFatal: (message: string) => void,
  onCommit?: (tookMs: number) => void,
  clock?: Clock,
): Writer {
  const thread = new WriterThread(options);
  const link: WriterLink = {
    start: (onReady, onFailed) => thread.start(onReady, onFailed),
    run: async (batch, requestedAtMs) => (await thread.run(OWN_REPLICA, batch, requestedAtMs)).text,
    close: () => thread.close(),
  };
  return startQueue(link, onFatal, onCommit, clock);
}

/** The way of batches to the Worker. One batch of a replica runs at a time. */
export interface WriterLink extends Pick<BatchTransport, "start" | "close"> {
  /** Resolves with the outcome in JSON. `batch`: encoded by `encodeBatch`. */
  run(batch: string, requestedAtMs: number): Promise<string>;
}

/** A writer whose batches take this way. The rest is as for `startWriter`. */
export function startQueue(
  link: WriterLink,
  onFatal: (message: string) => void,
  onCommit: (tookMs: number) => void = () => {},
  clock: Clock = systemClock,
): Writer {
  const queue = new WriteQueue(transportOf(link), { onFatal, onCommit, clock });
  // Later, so that the listener opens first. Operations are queued meanwhile.
  setTimeout(() => queue.start(), 0);
  return queue;
}

function transportOf(link: WriterLink): BatchTransport {
  return {
    patienceMs: 0,
    commitWithinMs: COMMIT_WITHIN_MS,
    start: (onReady, onFatal) => link.start(onReady, onFatal),
    delayMs: (waiting, isAfterBatch) => (isAfterBatch && waiting > FEW_OPERATIONS ? PACE_MS : 0),
    async run({ operations, reserves, requestedAtMs }: OutgoingBatch) {
      const outcome = await link.run(encodeBatch(operations, reserves), requestedAtMs);
      return JSON.parse(outcome) as BatchOutcome;
    },
    close: () => link.close(),
  };
}

/** The Worker with the one writing connection of a gateway, for one or several replicas. */
export class WriterThread {
  readonly #options: WriterStart;
  #worker: Worker | undefined;
  /** By replica. */
  readonly #outcomes = new Map<number, (outcome: SentOutcome) => void>();
  readonly #ends = new Map<number, (interrupted: Interrupted | undefined) => void>();
  #closed: (() => void) | undefined;
  #hasFailed = false;
  #hasClosed = false;

  constructor(options: WriterStart) {
    this.#options = options;
  }

  /** `onReady`: batches can run. `onFatal`: the process must stop, and a running batch never gets its outcome. */
  start(onReady: () => void, onFatal: (message: string) => void): void {
    const fail = (message: string): void => {
      if (this.#hasFailed) return;
      this.#hasFailed = true;
      this.#closed?.();
      onFatal(message);
    };
    const worker = startWorker("writer/writer");
    worker.onmessage = ({ data }: MessageEvent<WriterMessage>) => {
      // A failed batch gets no outcome. A later one would be matched with it.
      if (this.#hasFailed) return;
      if (data.kind === "fatal") fail(data.message);
      else if (data.kind === "outcome") this.#outcomes.get(data.replica)?.(data.outcome);
      else if (data.kind === "ended") this.#ends.get(data.replica)?.(data.interrupted);
      else if (data.kind === "closed") this.#closed?.();
      else onReady();
    };
    worker.onerror = (event) => fail(event.message);
    worker.addEventListener("close", () => {
      if (!this.#hasClosed) fail("the writer ended by itself");
    });
    worker.postMessage(this.#options);
    this.#worker = worker;
  }

  /** Runs a batch of the replica. */
  run(replica: number, batch: string, requestedAtMs: number): Promise<SentOutcome> {
    const message: WriterBatch = { replica, batch, requestedAtMs };
    return new Promise((resolve) => {
      this.#outcomes.set(replica, resolve);
      this.#worker?.postMessage(message);
    });
  }

  /**
   * The process of the replica has ended. Batches that it sent before are run first. Resolves with undefined while the
   * database cannot be written: then nothing is changed.
   */
  end(replica: number): Promise<Interrupted | undefined> {
    const message: WriterEnd = { ended: replica };
    return new Promise((resolve) => {
      this.#ends.set(replica, (interrupted) => {
        this.#ends.delete(replica);
        this.#outcomes.delete(replica);
        resolve(interrupted);
      });
      this.#worker?.postMessage(message);
    });
  }

  async close(): Promise<void> {
    // A terminated Worker may keep its connection open. Then the main one is not the last, and the WAL stays.
    if (!this.#hasFailed && !this.#hasClosed)
      await new Promise<void>((resolve) => {
        this.#closed = resolve;
        const close: WriterClose = { kind: "close" };
        this.#worker?.postMessage(close);
      });
    this.#hasClosed = true;
    this.#worker?.terminate();
  }
}
