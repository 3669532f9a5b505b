import type { Clock } from "../lib/clock.ts";
import { FOLDED_AT_ONCE } from "./fold.ts";
import type { Writer } from "./writerClient.ts";

/** The folding of old requests while a gateway serves. */
export interface Folding {
  stop(): void;
}

const FOLD_EVERY_MS = 3_600_000;
/** Between two batches the writer belongs to the charges. */
const FOLD_PAUSE_MS = 20;

/**
 * Folds what is older than `keepRequestsMs` by the clock, now and once an hour, in small batches.
 * `onFolded` is told how many requests went, where any did.
 */
export function startFolding(
  writer: Writer,
  clock: Clock,
  keepRequestsMs: number,
  onFolded: (count: number) => void,
): Folding {
  const stopping = new AbortController();
  let timer: Timer | undefined;
  const foldAll = async (): Promise<void> => {
    const before = clock.epochMs() - keepRequestsMs;
    let count = 0;
    try {
      for (let isMore = true; isMore && !stopping.signal.aborted;) {
        const { folded = 0 } = await writer.write({ kind: "fold", before });
        count += folded;
        isMore = folded === FOLDED_AT_ONCE;
        await Bun.sleep(FOLD_PAUSE_MS);
      }
    } catch {
      // The store is full or locked. Nothing was removed halfway, and the next hour tries again.
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
