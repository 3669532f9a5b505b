import { DAY_MS, type Clock } from "../../lib/clock.ts";
import type { Requests } from "../store.ts";
import { clockDoubt, type ClockDoubt } from "../tables/lastEntry.ts";
import { isTemporary, type Writer } from "./writer.ts";

/** The folding of old requests while a gateway serves. */
export interface Folding {
  stop(): void;
}

export interface FoldingListener {
  /** So many requests were folded, at least one. */
  readonly onFolded: (count: number) => void;
  /** The clock is far from the last entry: at the start, and once a day while nothing is folded for it. */
  readonly onClockDoubt: (doubt: ClockDoubt) => void;
}

/** Requests of one fold. A small transaction does not delay charges. */
export const FOLD_BATCH = 50;
const FOLD_EVERY_MS = 3_600_000;
/** After a failure that may pass: another transaction has one of the accounts, for example. */
const FOLD_AGAIN_MS = 60_000;
/** Between two batches the writer is free for charges. */
export const FOLD_PAUSE_MS = 20;
/** A clock that was far ahead counts as right when requests have come under it for so long. */
const TRUSTED_AFTER_MS = 7 * DAY_MS;

interface FoldingStore {
  readonly writer: Writer;
  readonly store: { readonly requests: Pick<Requests, "newestAt" | "lastEntryAt"> };
}

/**
 * Folds requests that are older than `keepRequestsMs`, now and once an hour, in small batches. The age counts from the
 * newest request that is not in the future. So a clock that is years ahead folds nothing before a request arrives at
 * that time, and then nothing for a week, in which a person can correct it.
 */
export function startFolding(
  { writer, store }: FoldingStore,
  clock: Clock,
  keepRequestsMs: number,
  { onFolded, onClockDoubt }: FoldingListener,
): Folding {
  const stopping = new AbortController();
  let timer: Timer | undefined;
  let tellAgainMs = -Infinity;
  let isStart = true;
  const tellDoubt = ({ doubt, isHeld }: Look): void => {
    const nowMs = clock.monotonicMs();
    const isDue = isStart || (isHeld && nowMs >= tellAgainMs);
    isStart = false;
    if (doubt === undefined || !isDue) return;
    tellAgainMs = nowMs + DAY_MS;
    onClockDoubt(doubt);
  };
  const foldAll = async (): Promise<void> => {
    let count = 0;
    let nextMs = FOLD_EVERY_MS;
    try {
      const seen = await look(store, clock.epochMs());
      tellDoubt(seen);
      const before = (seen.newestMs ?? 0) - keepRequestsMs;
      const mayFold = seen.newestMs !== undefined && !seen.isHeld;
      for (let isMore = mayFold; isMore && !stopping.signal.aborted;) {
        const { folded = 0 } = await writer.write({ kind: "fold", before });
        count += folded;
        isMore = folded === FOLD_BATCH;
        await Bun.sleep(FOLD_PAUSE_MS);
      }
    } catch (error) {
      // A full, locked or unreadable database is reported by requests. Each batch is atomic.
      if (isTemporary(error)) nextMs = FOLD_AGAIN_MS;
    }
    if (count > 0) onFolded(count);
    if (!stopping.signal.aborted) timer = setTimeout(() => void foldAll(), nextMs).unref();
  };
  void foldAll();
  return {
    stop() {
      stopping.abort();
      clearTimeout(timer);
    },
  };
}

interface Look {
  /** The admission of the newest request that is not in the future. */
  readonly newestMs: number | undefined;
  readonly doubt: ClockDoubt | undefined;
  /** Nothing is folded, because requests may seem older than they are. */
  readonly isHeld: boolean;
}

async function look({ requests }: FoldingStore["store"], nowMs: number): Promise<Look> {
  const lastMs = await requests.lastEntryAt();
  const newestMs = await requests.newestAt(nowMs);
  const trustedMs = await requests.newestAt(nowMs - TRUSTED_AFTER_MS);
  const doubt = lastMs === undefined ? undefined : clockDoubt(nowMs, lastMs);
  // After a jump the newest requests agree with the clock, and those before them do not.
  const hasJumped =
    newestMs !== undefined &&
    trustedMs !== undefined &&
    clockDoubt(newestMs, trustedMs) === "ahead";
  return {
    newestMs,
    doubt: hasJumped ? "ahead" : doubt,
    isHeld: hasJumped || doubt === "behind",
  };
}
