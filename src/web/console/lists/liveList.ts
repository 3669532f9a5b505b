import { computed, signal, type ReadonlySignal } from "@preact/signals";
import { failureFrom, type ApiFailure } from "../../api.ts";
import { createResource, type ListPage, type ListResource } from "../../resource.ts";
import { followStore } from "../live.ts";

const PAGE_ROWS = 50;
/** The most rows that one answer of the console has. */
const ROWS_MAX = 1000;

/** What a load asks for. `before` is the cursor of the page; undefined for the first. */
interface PageRequest {
  readonly before?: string;
  readonly limit: number;
}

/** `searched_to`: the server stopped its search at this time. `next` goes on. */
interface LivePage<Row> extends ListPage<Row> {
  readonly searched_to?: string | null;
}

export interface LiveList<Row> extends ListResource<Row> {
  /** The server searched to this time and no further; null if it saw all. */
  readonly searchedTo: ReadonlySignal<string | null>;
}

/**
 * A list that grows by pages, and loads its rows again when the store was changed. Pages that were opened stay. A change
 * of a signal that `load` reads, such as a filter, starts the list anew.
 */
export function createLiveList<Row>(
  load: (page: PageRequest, abort: AbortSignal) => Promise<LivePage<Row>>,
  idOf: (row: Row) => string | number,
): LiveList<Row> {
  const shown = signal<LivePage<Row> | undefined>(undefined);
  const isLoadingMore = signal(false);
  const failedMore = signal<ApiFailure | undefined>(undefined);
  const isAnew = signal(true);
  let isRefresh = false;
  let more = new AbortController();

  const rows = createResource(async (abort) => {
    // What the filters of before gave is no part of what they give now.
    const isKept = isRefresh && !isAnew.peek();
    isRefresh = false;
    if (!isKept) {
      more.abort();
      isLoadingMore.value = false;
      isAnew.value = true;
    }
    const limit = isKept ? (shown.peek()?.data.length ?? 0) : PAGE_ROWS;
    try {
      const page = await load({ limit: Math.min(Math.max(limit, PAGE_ROWS), ROWS_MAX) }, abort);
      if (abort.aborted) return;
      shown.value = isKept ? withOpened(page, shown.peek()) : page;
      isAnew.value = false;
      failedMore.value = undefined;
    } catch (error) {
      if (!abort.aborted && !isKept) shown.value = undefined;
      throw error;
    }
  });

  /** The rows of a refresh, and behind them the older ones that it did not ask for. */
  const withOpened = (page: LivePage<Row>, old: LivePage<Row> | undefined): LivePage<Row> => {
    if (old === undefined || page.next === null) return page;
    const last = page.data.at(-1);
    const at = last === undefined ? -1 : old.data.findIndex((row) => idOf(row) === idOf(last));
    // A search that was cut short and found nothing says nothing new.
    if (last === undefined) return old;
    const tail = at < 0 ? [] : old.data.slice(at + 1);
    return at < 0 ? page : { ...old, data: [...page.data, ...tail] };
  };

  const loadMore = async (): Promise<void> => {
    const before = shown.peek()?.next ?? null;
    if (before === null || isLoadingMore.peek() || isAnew.peek()) return;
    more = new AbortController();
    const mine = more.signal;
    isLoadingMore.value = true;
    try {
      const page = await load({ before, limit: PAGE_ROWS }, mine);
      if (mine.aborted) return;
      const old = shown.peek()?.data ?? [];
      const known = new Set(old.map(idOf));
      shown.value = {
        ...page,
        data: [...old, ...page.data.filter((row) => !known.has(idOf(row)))],
      };
      failedMore.value = undefined;
    } catch (error) {
      if (!mine.aborted) failedMore.value = failureFrom(error);
    } finally {
      if (!mine.aborted) isLoadingMore.value = false;
    }
  };

  const followed = followStore({
    ...rows,
    reload() {
      isRefresh = true;
      rows.reload();
    },
  });
  return {
    data: computed(() => shown.value?.data),
    searchedTo: computed(() => shown.value?.searched_to ?? null),
    hasMore: computed(() => (shown.value?.next ?? null) !== null),
    failure: computed(() => rows.failure.value ?? failedMore.value),
    isLoading: computed(() => isLoadingMore.value || (isAnew.value && rows.isLoading.value)),
    more: () => void loadMore(),
    reload: () => followed.reload(),
    stop() {
      more.abort();
      followed.stop();
    },
  };
}
