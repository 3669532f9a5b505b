import type { Clock } from "../../lib/clock.ts";
import { FOLDED_AT_ONCE } from "./operations.ts";
import type { RequestTable } from "../tables/requests.ts";
import type { Writer } from "./writerClient.ts";

/** The folding of old requests while a gateway serves. */
export interface Folding {
  stop(): void;
}

const FOLD_EVERY_MS = 3_600_000;
/** Between two batches the writer belongs to the charges. */
export const FOLD_PAUSE_MS = 20;

/** Where folding finds the newest request, and through which it folds the others. */
interface FoldedBooks {
  readonly writer: Writer;
  readonly store: { readonly requests: Pick<RequestTable, "newestAt"> };
}

/**
 * Folds what is older than `keepRequestsMs`, now and once an hour, in small batches. How old it is by the newest
 * request that is not ahead of the clock: a clock that was put ahead by years makes nothing old before a request
 * has come under it. `onFolded` is told how many requests went, where any did.
 */
export function startFolding(
  { writer, store }: FoldedBooks,
  clock: Clock,
  keepRequestsMs: number,
  onFolded: (count: number) => void,
): Folding {
  const stopping = new AbortController();
  let timer: Timer | undefined;
  const foldAll = async (): Promise<void> => {
    let count = 0;
    try {
      const newestMs = store.requests.newestAt(clock.epochMs());
      const before = (newestMs ?? 0) - keepRequestsMs;
      for (let isMore = newestMs !== undefined; isMore && !stopping.signal.aborted;) {
        const { folded = 0 } = await writer.write({ kind: "fold", before });
        count += folded;
        isMore = folded === FOLDED_AT_ONCE;
        await Bun.sleep(FOLD_PAUSE_MS);
      }
    } catch {
      // Whatever it was, full, locked or unreadable, is told by those who need the store. Nothing was
      // removed halfway, and the next hour tries again.
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
