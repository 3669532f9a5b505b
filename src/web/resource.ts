import { batch, effect, signal, type ReadonlySignal } from "@preact/signals";
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

/**
 * A resource that lives as long as the component. Another `key` makes a new one without the old data: use it for what
 * names the thing, such as an account. For what only changes the view of it, such as the span, let `make` read a signal.
 */
export function useResource<Made extends { stop(): void }>(make: () => Made, key = ""): Made {
  const made = useMemo(make, [key]);
  useEffect(() => () => made.stop(), [made]);
  return made;
}
