import { computed, signal, type ReadonlySignal } from "@preact/signals";
import { failureFrom, type ApiFailure } from "./api.ts";
import { createResource, type Resource } from "./resource.ts";

/** What a load of a list asks for. `before` is the cursor of the page; absent for the first. */
export interface PageRequest {
  readonly before?: string;
  readonly limit: number;
}

/** One page of a list. */
export interface ListPage<Row> {
  readonly data: readonly Row[];
  /** The cursor of the page after it; null at the end. */
  readonly next: string | null;
  /** The number of all rows that match, where the server counts them. */
  readonly total?: number;
  /** The server stopped its search at this time, and `next` goes on; null if it searched all. */
  readonly searched_to?: string | null;
}

export interface ListOptions<Row> {
  /** A change of a signal that it reads before it first awaits, such as a filter, starts the list anew. */
  readonly load: (page: PageRequest, abort: AbortSignal) => Promise<ListPage<Row>>;
  readonly keyOf: (row: Row) => string;
  readonly pageRows?: number;
  /** The most rows that one answer has. */
  readonly rowsMax?: number;
  /** Reloads the list when its data may have changed, such as `followStore`. */
  readonly follow?: (list: Resource<unknown>) => Resource<unknown>;
}

/** A list that grows by pages. A reload keeps the pages that were opened. */
export interface List<Row> extends Resource<readonly Row[]> {
  readonly keyOf: (row: Row) => string;
  /** All pages that are shown, as one page. */
  readonly shown: ReadonlySignal<ListPage<Row> | undefined>;
  /** Loads the next page below those that are shown. */
  readonly more: () => void;
}

/** Makes a list, and loads its first page. `isLoading` is false while it reloads, so that nothing blinks. */
export function createList<Row>(options: ListOptions<Row>): List<Row> {
  const { load, keyOf, pageRows = 50, rowsMax = 1000, follow } = options;
  const shown = signal<ListPage<Row> | undefined>(undefined);
  const isLoadingMore = signal(false);
  const failedMore = signal<ApiFailure | undefined>(undefined);
  const isAnew = signal(true);
  let isReload = false;
  let more = new AbortController();

  const first = createResource(async (abort) => {
    // The rows of the earlier filters do not belong to the new list.
    const isKept = isReload && !isAnew.peek();
    isReload = false;
    if (!isKept) {
      more.abort();
      isLoadingMore.value = false;
      isAnew.value = true;
    }
    const limit = isKept ? (shown.peek()?.data.length ?? 0) : pageRows;
    try {
      const page = await load({ limit: Math.min(Math.max(limit, pageRows), rowsMax) }, abort);
      if (abort.aborted) return;
      shown.value = isKept ? withOpened(page, shown.peek()) : page;
      isAnew.value = false;
      failedMore.value = undefined;
    } catch (error) {
      if (!abort.aborted && !isKept) shown.value = undefined;
      throw error;
    }
  });

  /** The rows of a reload, and below them the older rows that it did not ask for. */
  const withOpened = (page: ListPage<Row>, old: ListPage<Row> | undefined): ListPage<Row> => {
    if (old === undefined || page.next === null) return page;
    const last = page.data.at(-1);
    // A page without rows, whose search stopped early, changes nothing.
    if (last === undefined) return old;
    const at = old.data.findIndex((row) => keyOf(row) === keyOf(last));
    if (at < 0) return page;
    const { total } = page;
    const data = [...page.data, ...old.data.slice(at + 1)];
    return { ...old, data, ...(total !== undefined && { total }) };
  };

  const loadMore = async (): Promise<void> => {
    const before = shown.peek()?.next ?? null;
    if (before === null || isLoadingMore.peek() || isAnew.peek()) return;
    more = new AbortController();
    const mine = more.signal;
    isLoadingMore.value = true;
    try {
      const page = await load({ before, limit: pageRows }, mine);
      if (mine.aborted) return;
      const old = shown.peek()?.data ?? [];
      const known = new Set(old.map(keyOf));
      const data = [...old, ...page.data.filter((row) => !known.has(keyOf(row)))];
      shown.value = { ...page, data };
      failedMore.value = undefined;
    } catch (error) {
      if (!mine.aborted) failedMore.value = failureFrom(error);
    } finally {
      if (!mine.aborted) isLoadingMore.value = false;
    }
  };

  const reloading: Resource<unknown> = {
    ...first,
    reload() {
      isReload = true;
      first.reload();
    },
  };
  const followed = follow?.(reloading) ?? reloading;
  return {
    keyOf,
    shown,
    data: computed(() => shown.value?.data),
    failure: computed(() => first.failure.value ?? failedMore.value),
    isLoading: computed(() => isLoadingMore.value || (isAnew.value && first.isLoading.value)),
    more: () => void loadMore(),
    reload: followed.reload,
    stop() {
      more.abort();
      followed.stop();
    },
  };
}
