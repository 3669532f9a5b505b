import { computed, effect, signal } from "@preact/signals";
import type { Resource } from "../resource.ts";
import { storeChanges } from "./session.ts";

/** The pause after a load, as a multiple of the time that the load took. A busy gateway changes its store all the time. */
const PAUSE_FACTOR = 9;

/**
 * Makes a resource load again when the store was changed, by the gateway, a command or this page. Loads take at most a
 * tenth of the time. `isLoading` is true only for loads that the reader brought about, so that nothing blinks.
 */
export function followStore<Made extends Resource<unknown>>(resource: Made): Made {
  let startedMs = performance.now();
  let pausedUntilMs = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const isFollowing = signal(false);
  const stopTiming = effect(() => {
    const nowMs = performance.now();
    if (resource.isLoading.value) {
      startedMs = nowMs;
      return;
    }
    pausedUntilMs = nowMs + PAUSE_FACTOR * (nowMs - startedMs);
    isFollowing.value = false;
  });
  const seen = storeChanges.peek();
  const stopFollowing = effect(() => {
    if (storeChanges.value === seen || timer !== undefined) return;
    timer = setTimeout(
      () => {
        timer = undefined;
        isFollowing.value = true;
        resource.reload();
      },
      Math.max(pausedUntilMs - performance.now(), 0),
    );
  });
  return {
    ...resource,
    isLoading: computed(() => resource.isLoading.value && !isFollowing.value),
    stop() {
      stopTiming();
      stopFollowing();
      clearTimeout(timer);
      resource.stop();
    },
  };
}
