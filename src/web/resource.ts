import { batch, computed, effect, signal, type ReadonlySignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import { failureFrom, type ApiFailure } from "./api.ts";

/** Something that is loaded and can be loaded again. Its last data stay while it loads, so that nothing jumps. */
export interface Resource<Data> {
  /** Undefined until the first load succeeds. */
  readonly data: ReadonlySignal<Data | undefined>;
  /** The failure of the last load. `data` may still hold what an earlier load gave. */
  readonly failure: ReadonlySignal<ApiFailure | undefined>;
  readonly isLoading: ReadonlySignal<boolean>;
  readonly reload: () => void;
  /** Aborts a load and ends the reloads. */
  readonly stop: () => void;
}

/**
 * Loads now, and again whenever a signal changes that `load` reads before it first awaits. A new load aborts the one
 * before.
 */
export function createResource<Data>(load: (abort: AbortSignal) => Promise<Data>): Resource<Data> {
  const data = signal<Data | undefined>(undefined);
  const failure = signal<ApiFailure | undefined>(undefined);
  const isLoading = signal(true);
  let current = new AbortController();

  const run = (): void => {
    current.abort();
    const mine = new AbortController();
    current = mine;
    isLoading.value = true;
    const settle = (set: () => void): void => {
      if (mine.signal.aborted) return;
      batch(() => {
        isLoading.value = false;
        set();
      });
    };
    load(mine.signal).then(
      (loaded) =>
        settle(() => {
          data.value = loaded;
          failure.value = undefined;
        }),
      (error: unknown) => settle(() => (failure.value = failureFrom(error))),
    );
  };
  const stopEffect = effect(run);
  return {
    data,
    failure,
    isLoading,
    reload: run,
    stop() {
      stopEffect();
      current.abort();
    },
  };
}

/** One page of a list. `next` is the cursor of the page after it; null at the end. */
export interface ListPage<Row> {
  readonly data: readonly Row[];
  readonly next: string | null;
}

/** A list that grows by pages. */
export interface ListResource<Row> extends Resource<readonly Row[]> {
  readonly hasMore: ReadonlySignal<boolean>;
  /** Loads the next page behind those that are shown. */
  readonly more: () => void;
}

/**
 * A list whose first page loads as a resource does. `load` gets the cursor of the page, undefined for the first. A
 * reload gives the first page alone.
 */
export function createListResource<Row>(
  load: (before: string | undefined, abort: AbortSignal) => Promise<ListPage<Row>>,
): ListResource<Row> {
  const first = createResource((abort) => load(undefined, abort));
  const rows = signal<readonly Row[] | undefined>(undefined);
  const next = signal<string | null>(null);
  const isLoadingMore = signal(false);
  const failedMore = signal<ApiFailure | undefined>(undefined);
  let abort = new AbortController();

  const isLoading = computed(() => first.isLoading.value || isLoadingMore.value);
  const stopEffect = effect(() => {
    const page = first.data.value;
    if (page === undefined) return;
    abort.abort();
    batch(() => {
      rows.value = page.data;
      next.value = page.next;
      isLoadingMore.value = false;
      failedMore.value = undefined;
    });
  });

  const more = (): void => {
    const before = next.peek();
    if (before === null || isLoading.peek()) return;
    abort = new AbortController();
    const mine = abort.signal;
    isLoadingMore.value = true;
    const settle = (set: () => void): void => {
      if (mine.aborted) return;
      batch(() => {
        isLoadingMore.value = false;
        set();
      });
    };
    load(before, mine).then(
      (page) =>
        settle(() => {
          rows.value = [...(rows.peek() ?? []), ...page.data];
          next.value = page.next;
          failedMore.value = undefined;
        }),
      (error: unknown) => settle(() => (failedMore.value = failureFrom(error))),
    );
  };
  return {
    data: rows,
    failure: computed(() => first.failure.value ?? failedMore.value),
    isLoading,
    hasMore: computed(() => next.value !== null),
    more,
    reload: first.reload,
    stop() {
      stopEffect();
      abort.abort();
      first.stop();
    },
  };
}

/**
 * A resource that lives as long as the component. Another `key` makes a new one without the old data: use it for what
 * names the thing, such as an account. For what only changes the view of it, such as the span, let `make` read a signal.
 */
export function useResource<Made extends { stop(): void }>(make: () => Made, key = ""): Made {
  const made = useMemo(make, [key]);
  useEffect(() => () => made.stop(), [made]);
  return made;
}
