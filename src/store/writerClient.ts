import type { WriteOperation, WriteResult } from "./operations.ts";
import type { Durability } from "./sqlite.ts";
import type {
  WriteFailure,
  WriteReply,
  WriterBatch,
  WriterMessage,
  WriterStart,
} from "./writer.ts";

/** The writer could not do what it was asked; nothing of the operation is in the store. */
export class WriteError extends Error {
  override readonly name = "WriteError";
  constructor(
    readonly failure: WriteFailure,
    message: string,
  ) {
    super(message);
  }
}

/** The one way in which a serving gateway writes. */
export interface Writer {
  /** Resolves once the operation is committed; rejects with WriteError. Operations keep their order. */
  write(operation: WriteOperation): Promise<WriteResult>;
  /** The last write found no room on the disk. */
  readonly isFull: boolean;
  /** Tries a write whose outcome only `isFull` tells; one at a time. */
  probe(operation: WriteOperation): void;
  /** Waits for what was asked so far, then ends the Worker; after a fatal failure it does not wait. */
  close(): Promise<void>;
}

interface Waiting {
  operation: WriteOperation;
  resolve(result: WriteResult): void;
  reject(error: Error): void;
}

/**
 * Starts the Worker. `onFatal` is called when it can no longer be trusted with money (an I/O error, a
 * crash): the process has to stop; what was under way then stays unanswered.
 */
export function startWriter(
  options: { path: string; durability: Durability },
  onFatal: (message: string) => void,
): Writer {
  const worker = new Worker(writerUrl());
  let waiting: Waiting[] = [];
  let underWay: Waiting[] = [];
  let ready = false;
  let closing = false;
  let broken = false;
  let isFull = false;
  let isProbing = false;
  let idle: (() => void) | undefined;

  const sendNext = (): void => {
    if (broken || (ready && underWay.length === 0 && waiting.length === 0)) idle?.();
    if (broken || !ready || underWay.length > 0 || waiting.length === 0) return;
    underWay = waiting;
    waiting = [];
    worker.postMessage({
      operations: underWay.map(({ operation }) => operation),
    } satisfies WriterBatch);
  };
  const settle = (replies: readonly WriteReply[]): void => {
    const answered = underWay;
    underWay = [];
    sendNext();
    for (const reply of replies) isFull = !reply.ok && reply.failure === "full";
    answered.forEach((one, at) => settleOne(one, replies[at]));
  };
  const fail = (message: string): void => {
    broken = true;
    idle?.();
    onFatal(message);
  };
  worker.onmessage = ({ data }: MessageEvent<WriterMessage>) => {
    if (data.kind === "fatal") return fail(data.message);
    if (data.kind === "replies") return settle(data.replies);
    ready = true;
    sendNext();
  };
  worker.onerror = (event) => fail(event.message);
  worker.addEventListener("close", () => {
    if (!closing && !broken) fail("the writer ended by itself");
  });
  worker.postMessage({ ...options } satisfies WriterStart);

  const write = (operation: WriteOperation): Promise<WriteResult> =>
    new Promise((resolve, reject) => {
      waiting.push({ operation, resolve, reject });
      sendNext();
    });

  const tryOut = async (operation: WriteOperation): Promise<void> => {
    isProbing = true;
    try {
      await write(operation);
    } catch {
      // What it was tried for stands in isFull.
    } finally {
      isProbing = false;
    }
  };

  return {
    write,
    get isFull() {
      return isFull;
    },
    probe(operation) {
      if (!isProbing) void tryOut(operation);
    },
    async close() {
      await new Promise<void>((resolve) => {
        idle = resolve;
        sendNext();
      });
      closing = true;
      worker.terminate();
    },
  };
}

function settleOne(one: Waiting, reply: WriteReply | undefined): void {
  if (reply?.ok) one.resolve(reply.result);
  else
    one.reject(
      new WriteError(reply?.failure ?? "refused", reply?.message ?? "the writer gave no answer"),
    );
}

/** In the compiled binary a Worker is named from the entry, not from the module that starts it. */
function writerUrl(): string {
  return Bun.isStandaloneExecutable
    ? "./store/writer.ts"
    : new URL("./writer.ts", import.meta.url).href;
}
