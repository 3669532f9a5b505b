import type { Clock } from "../../lib/clock.ts";
import type { Writer } from "./writeQueue.ts";

/** The folding of old requests while a gateway serves. */
export interface Folding {
  stop(): void;
}

/** Requests of one fold. A small transaction does not delay charges. */
export const FOLD_BATCH = 50;
const FOLD_EVERY_MS = 3_600_000;
/** Between two batches the writer is free for charges. */
export const FOLD_PAUSE_MS = 20;

interface FoldingStore {
  readonly writer: Writer;
  readonly store: {
    readonly requests: {
      newestAt(nowMs: number): number | undefined | Promise<number | undefined>;
    };
  };
}

/**
 * Folds requests that are older than `keepRequestsMs`, now and once an hour, in small batches. The age counts from the
 * newest request that is not in the future. So a clock that is years ahead folds nothing before a request arrives at
 * that time. Calls `onFolded` with the number of folded requests, if there are any.
 */
export function startFolding(
  { writer, store }: FoldingStore,
  clock: Clock,
  keepRequestsMs: number,
  onFolded: (count: number) => void,
): Folding {
  const stopping = new AbortController();
  let timer: Timer | undefined;
  const foldAll = async (): Promise<void> => {
    let count = 0;
    try {
      const newestMs = await store.requests.newestAt(clock.epochMs());
      const before = (newestMs ?? 0) - keepRequestsMs;
      for (let isMore = newestMs !== undefined; isMore && !stopping.signal.aborted;) {
        const { folded = 0 } = await writer.write({ kind: "fold", before });
        count += folded;
        isMore = folded === FOLD_BATCH;
        await Bun.sleep(FOLD_PAUSE_MS);
      }
    } catch {
      // A full, locked or unreadable database is reported by requests. Each batch is atomic, and the next hour retries.
    }
    if (count > 0) onFolded(count);
    if (!stopping.signal.aborted) timer = setTimeout(() => void foldAll(), FOLD_EVERY_MS).unref();
  };
  void foldAll();
  return {
    stop() {
      stopping.abort();
      clearTimeout(timer);
    },
  };
}
