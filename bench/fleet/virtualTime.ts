import { drainMicrotasks } from "bun:jsc";
import type { Clock } from "../../src/lib/clock.ts";

interface Event {
  readonly atMs: number;
  /** Events of the same moment come in the order in which they were planned. */
  readonly order: number;
  run: (() => void) | undefined;
}

/**
 * Time that passes from event to event. While `run` works, the global timers are timers of this time, so code of the
 * product runs in it unchanged.
 */
export class VirtualTime {
  nowMs = 0;
  readonly clock: Clock = { epochMs: () => this.nowMs, monotonicMs: () => this.nowMs };
  readonly #heap: Event[] = [];
  #planned = 0;

  /** Runs an event this much later. */
  in(delayMs: number, run: () => void): Event {
    const event = {
      atMs: this.nowMs + Math.max(0, delayMs),
      order: (this.#planned += 1),
      run,
    };
    this.#push(event);
    return event;
  }

  /** Runs `begin`, and then all events until none is left or `isOver`. What promises wait for runs at once. */
  run(begin: () => void, isOver: () => boolean = () => false): void {
    const { setTimeout, clearTimeout } = globalThis;
    Object.assign(globalThis, {
      setTimeout: (run: () => void, delayMs = 0) => timerOf(this.in(delayMs, run)),
      clearTimeout: (timer: { event: Event } | undefined) => {
        if (timer !== undefined) timer.event.run = undefined;
      },
    });
    try {
      begin();
      drainMicrotasks();
      while (!isOver()) {
        const event = this.#pop();
        if (event === undefined) return;
        if (event.run === undefined) continue;
        this.nowMs = event.atMs;
        event.run();
        drainMicrotasks();
      }
    } finally {
      Object.assign(globalThis, { setTimeout, clearTimeout });
    }
  }

  #push(event: Event): void {
    const heap = this.#heap;
    let at = heap.push(event) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, heap[parent] as Event)) break;
      heap[at] = heap[parent] as Event;
      at = parent;
    }
    heap[at] = event;
  }

  #pop(): Event | undefined {
    const heap = this.#heap;
    const [first] = heap;
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event))
        child += 1;
      if (!isBefore(heap[child] as Event, last)) break;
      heap[at] = heap[child] as Event;
      at = child;
    }
    heap[at] = last;
    return first;
  }
}

function isBefore(one: Event, other: Event): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}

/** What the product asks of a timer. */
function timerOf(event: Event): { event: Event; unref(): unknown } {
  return {
    event,
    unref() {
      return this;
    },
  };
}
