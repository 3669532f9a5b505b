import { errorCode } from "../../lib/systemError.ts";
import { printWarning } from "../cli/print.ts";

/** Writes the log of a server to the standard output. */
export interface LogWriter {
  /** Takes whole lines. Never waits for whoever reads them, and never throws. */
  readonly write: (lines: string) => void;
  /** Resolves when all that was taken is written, or will not be soon. */
  drain(): Promise<void>;
}

/** What may wait for a reader that does not read, some 20,000 lines: beyond it lines are lost, before memory is. */
const WAITING_BYTES_MAX = 8 * 1024 * 1024;
/** How long the end of a gateway waits for the reader of its log. */
const DRAIN_WAIT_MS = 1000;
const DRAIN_PAUSE_MS = 10;

/**
 * The log outlives its reader: where that went away, its disk is full, or it reads no more, lines are lost. One line on
 * the error output says so, the first time for each. Of bytes that wait the stream itself tells nothing (Bun 1.4.5:
 * its `writableLength` stays 0).
 */
export function openLogWriter(): LogWriter {
  let waitingBytes = 0;
  let isLosing = false;
  let isLineCut = false;
  process.stdout.once("error", (error) => {
    // Without anybody who hears of them, each would be thrown.
    process.stdout.on("error", () => undefined);
    printWarning(
      `the log cannot be written (${errorCode(error)}): log lines are lost, the gateway goes on`,
    );
  });
  return {
    write(lines) {
      if (waitingBytes > WAITING_BYTES_MAX) {
        if (!isLosing) printWarning(NOT_READ);
        isLosing = true;
        return;
      }
      // A disk that was full took a part of a line, which would swallow the one that comes behind it.
      const text = isLineCut ? `\n${lines}` : lines;
      const bytes = Buffer.byteLength(text);
      isLineCut = false;
      waitingBytes += bytes;
      process.stdout.write(text, (error) => {
        waitingBytes -= bytes;
        isLineCut ||= error !== null && error !== undefined;
      });
    },
    async drain() {
      const deadlineMs = performance.now() + DRAIN_WAIT_MS;
      const isWaiting = (): boolean => waitingBytes > 0;
      while (isWaiting() && performance.now() < deadlineMs) await Bun.sleep(DRAIN_PAUSE_MS);
      if (isWaiting()) printWarning("nothing reads the log: its last lines are lost");
    },
  };
}

const NOT_READ =
  "nothing reads the log: log lines are lost until a reader returns, the gateway goes on";
