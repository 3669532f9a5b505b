import { fstatSync } from "node:fs";
import { errorCode } from "../../lib/systemError.ts";
import { printWarning } from "../cli/print.ts";

/** Writes the log to standard output. */
export interface LogWriter {
  /** Takes whole lines. Never blocks and never throws. */
  readonly write: (lines: string) => void;
  /** Resolves when all lines are written, or after a time limit. */
  drain(): Promise<void>;
}

/** Some 20,000 lines that the reader of the log has not read yet. More lines are dropped. */
const PENDING_BYTES_MAX = 8 * 1024 * 1024;
const DRAIN_TIMEOUT_MS = 1000;
const DRAIN_POLL_MS = 10;

const STDOUT = 1;
/** A pipe takes so many bytes in one step: https://man7.org/linux/man-pages/man7/pipe.7.html */
const ONE_STEP_BYTES = 4096;

/**
 * Log lines are lost if the reader of the log ends, stops reading, or has a full disk; the gateway keeps running. The
 * first loss of each kind is reported on standard error. In Bun 1.4.5 `process.stdout.writableLength` stays 0, so
 * pending bytes are counted here. `isShared`: other processes write to the same output, and no line may stand within another. A
 * file takes a whole write in one step. A pipe and a socket may take a part of a long one.
 */
export function openLogWriter(isShared = false): LogWriter {
  let pendingBytes = 0;
  let isLosing = false;
  let isLineCut = false;
  process.stdout.once("error", (error) => {
    // Without a handler, the next error would be thrown.
    process.stdout.on("error", () => undefined);
    printWarning(
      `the log cannot be written (${errorCode(error)}): log lines are lost, the gateway goes on`,
    );
  });
  /** Text that waits for the write before, where the output is shared: the runtime would join both, and cut a line. */
  const waiting: string[] = [];
  let isWriting = false;
  const put = (lines: string): void => {
    isWriting = true;
    // A failed write may leave a part of a line in the log. The next line must not be appended to it.
    const text = isLineCut ? `\n${lines}` : lines;
    isLineCut = false;
    process.stdout.write(text, (error) => {
      pendingBytes -= Buffer.byteLength(lines);
      isLineCut ||= error !== null && error !== undefined;
      const next = waiting.shift();
      if (next === undefined) isWriting = false;
      else put(next);
    });
  };
  const write = (lines: string): void => {
    if (pendingBytes > PENDING_BYTES_MAX) {
      if (!isLosing) printWarning(NOT_READ);
      isLosing = true;
      return;
    }
    pendingBytes += Buffer.byteLength(lines);
    if (isShared && isWriting) waiting.push(lines);
    else put(lines);
  };
  return {
    write: isShared && takesParts() ? (lines) => piecesOf(lines).forEach(write) : write,
    async drain() {
      const deadlineMs = performance.now() + DRAIN_TIMEOUT_MS;
      const isPending = (): boolean => pendingBytes > 0;
      while (isPending() && performance.now() < deadlineMs) await Bun.sleep(DRAIN_POLL_MS);
      if (isPending()) printWarning("nothing reads the log: its last lines are lost");
    },
  };
}

/** Whether the output may take a part of a write: a pipe or a socket whose reader is slow. */
function takesParts(): boolean {
  try {
    const output = fstatSync(STDOUT);
    return output.isFIFO() || output.isSocket();
  } catch {
    return false;
  }
}

/** Pieces of whole lines. Each is written in one step, unless it is a single longer line. */
function piecesOf(lines: string): readonly string[] {
  if (lines.length * 3 <= ONE_STEP_BYTES) return [lines];
  const pieces: string[] = [];
  let piece = "";
  let bytes = 0;
  for (const line of lines.split(/(?<=\n)/)) {
    const more = Buffer.byteLength(line);
    if (bytes > 0 && bytes + more > ONE_STEP_BYTES) {
      pieces.push(piece);
      piece = "";
      bytes = 0;
    }
    piece += line;
    bytes += more;
  }
  pieces.push(piece);
  return pieces;
}

const NOT_READ =
  "nothing reads the log: log lines are lost until a reader returns, the gateway goes on";
