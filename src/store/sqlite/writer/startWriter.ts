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
import { startWorker } from "../workers.ts";
import type { SentBatch, WrittenFile } from "./fileWriter.ts";
import type { WriterClose, WriterMessage } from "./writer.ts";

/**
 * While more operations than this wait at the end of a commit, the next one starts this much later, so that more of them
 * share it. A commit costs as much as ten rows.
 */
const FEW_OPERATIONS = 4;
const PACE_MS = 2;

/**
 * Starts the Worker with a writer for this process alone. `onFatal` is called after an I/O error or a crash: the process must
 * stop. The promises of open writes never settle then. `onCommit` gets the time of each batch and must not throw.
 */
export function startWriter(
  file: WrittenFile,
  onFatal: (message: string) => void,
  onCommit?: (tookMs: number) => void,
  clock?: Clock,
): Writer {
  return startQueue(new WriterWorker(file), onFatal, onCommit, clock);
}

/** The way of batches to the writer of the file. One batch runs at a time. */
export interface WriterLink extends Pick<BatchTransport, "start" | "close"> {
  /** Resolves with the outcome in JSON. */
  run(sent: SentBatch): Promise<string>;
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
      const outcome = await link.run({ batch: encodeBatch(operations, reserves), requestedAtMs });
      return JSON.parse(outcome) as BatchOutcome;
    },
    close: () => link.close(),
  };
}

/** The Worker with the one writing connection of a serving gateway. */
class WriterWorker implements WriterLink {
  readonly #file: WrittenFile;
  #worker: Worker | undefined;
  #answer: ((outcome: string) => void) | undefined;
  #closed: (() => void) | undefined;
  #hasFailed = false;
  #hasClosed = false;

  constructor(file: WrittenFile) {
    this.#file = file;
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
      else if (data.kind === "outcome") this.#answer?.(data.outcome);
      else if (data.kind === "closed") this.#closed?.();
      else onReady();
    };
    worker.onerror = (event) => fail(event.message);
    worker.addEventListener("close", () => {
      if (!this.#hasClosed) fail("the writer ended by itself");
    });
    worker.postMessage(this.#file);
    this.#worker = worker;
  }

  run(sent: SentBatch): Promise<string> {
    return new Promise((resolve) => {
      this.#answer = resolve;
      this.#worker?.postMessage(sent);
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
