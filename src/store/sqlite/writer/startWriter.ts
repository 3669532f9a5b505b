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
import type { Durability } from "../sqlite.ts";
import { startWorker } from "../workers.ts";
import type { WriterBatch, WriterClose, WriterMessage, WriterStart } from "./writer.ts";

/**
 * While more operations than this wait at the end of a commit, the next one starts this much later, so that more of them
 * share it. A commit costs as much as ten rows.
 */
const FEW_OPERATIONS = 4;
const PACE_MS = 2;

/**
 * Starts the Worker. `onFatal` is called after an I/O error or a crash: the process must stop. The promises of open
 * writes never settle then. `onCommit` gets the time of each batch and must not throw.
 */
export function startWriter(
  options: { path: string; durability: Durability },
  onFatal: (message: string) => void,
  onCommit: (tookMs: number) => void = () => {},
  clock: Clock = systemClock,
): Writer {
  const queue = new WriteQueue(new WorkerTransport(options), { onFatal, onCommit, clock });
  // Later, so that the listener opens first. Operations are queued meanwhile.
  setTimeout(() => queue.start(), 0);
  return queue;
}

/** The Worker with the one writing connection of a serving gateway. */
class WorkerTransport implements BatchTransport {
  readonly patienceMs = 0;
  readonly commitWithinMs = COMMIT_WITHIN_MS;
  readonly #options: WriterStart;
  #worker: Worker | undefined;
  #answer: ((outcome: BatchOutcome) => void) | undefined;
  #closed: (() => void) | undefined;
  #hasFailed = false;
  #hasClosed = false;

  constructor(options: WriterStart) {
    this.#options = options;
  }

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
      else if (data.kind === "outcome") this.#answer?.(JSON.parse(data.outcome) as BatchOutcome);
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

  delayMs(waiting: number, isAfterBatch: boolean): number {
    return isAfterBatch && waiting > FEW_OPERATIONS ? PACE_MS : 0;
  }

  run({ operations, reserves, requestedAtMs }: OutgoingBatch): Promise<BatchOutcome> {
    const message: WriterBatch = { batch: encodeBatch(operations, reserves), requestedAtMs };
    return new Promise((resolve) => {
      this.#answer = resolve;
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
