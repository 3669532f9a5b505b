import { assert } from "../lib/assert.ts";
import { type FindCells, ownCells, type RateCells, type SlotCounter } from "./keyRates.ts";
import type { BucketCell } from "./tokenBucket.ts";

/** The entries of one table. An idle entry is used again, so these are the keys that are limited at the same time. */
const ENTRIES = 65_536;
/** How many places a name may have. */
const PLACES = 16;
const BUCKETS = 3;
const NAME_BYTES = 8;
const BUCKET_BYTES = 8;
const COUNT_BYTES = 4;
const ENTRY_BYTES = NAME_BYTES + BUCKETS * BUCKET_BYTES + COUNT_BYTES;

/** The bytes of a table for so many processes. */
export function tableBytes(processes: number): number {
  return ENTRIES * (ENTRY_BYTES + processes * COUNT_BYTES);
}

/**
 * Buckets and slots by name, in memory that the processes of a gateway share. Each step on a bucket or a slot is one atomic
 * operation, so a limit is exact over all processes, and no process waits for another one. A process that is killed leaves its
 * slots. The main process gives them back.
 */
export class SharedCells {
  readonly #names: BigInt64Array;
  readonly #buckets: BigInt64Array;
  readonly #slots: Int32Array;
  /** The slots of each process, by process and entry. */
  readonly #held: Int32Array;
  readonly #process: number;
  readonly #machineMs: () => number;

  /**
   * `at`: where the table begins in the memory. `process`: the number of this process, from 0. `machineMs`: the monotonic time
   * of the machine, which all processes have in common.
   */
  constructor(
    memory: ArrayBufferLike,
    { at, process, machineMs }: { at: number; process: number; machineMs: () => number },
  ) {
    this.#machineMs = machineMs;
    this.#names = new BigInt64Array(memory, at, ENTRIES);
    at += ENTRIES * NAME_BYTES;
    this.#buckets = new BigInt64Array(memory, at, ENTRIES * BUCKETS);
    at += ENTRIES * BUCKETS * BUCKET_BYTES;
    this.#slots = new Int32Array(memory, at, ENTRIES);
    at += ENTRIES * COUNT_BYTES;
    this.#held = new Int32Array(memory, at);
    this.#process = process;
  }

  /** The cells of a name. If too many names are in use at once, they are those of this process alone. */
  readonly find: FindCells = (name) => {
    // 0 is an entry that was never used.
    const hash = BigInt.asIntN(64, Bun.hash.wyhash(name) | 1n);
    const place = (): number | undefined => this.#placeOf(hash);
    let at = place() ?? -1;
    if (at < 0) return ownCells(name);
    /** Another name may have got the entry while this one was idle. */
    const entry = (): number => {
      if (Atomics.load(this.#names, at) !== hash) at = place() ?? at;
      return at;
    };
    return {
      requests: this.#bucket(entry, 0),
      tokens: this.#bucket(entry, 1),
      bodyBytes: this.#bucket(entry, 2),
      slots: this.#slotsOf(entry),
    } satisfies RateCells;
  };

  /** Gives back the slots of a process that has ended. */
  ended(process: number): void {
    for (let entry = 0; entry < ENTRIES; entry += 1) {
      const held = Atomics.exchange(this.#held, process * ENTRIES + entry, 0);
      if (held !== 0) Atomics.sub(this.#slots, entry, held);
    }
  }

  #bucket(entry: () => number, which: number): BucketCell {
    const bits = new BigInt64Array(1);
    const number = new Float64Array(bits.buffer);
    const bitsOf = (fullAtMs: number): bigint => {
      number[0] = fullAtMs;
      return bits[0] ?? 0n;
    };
    let read = 0n;
    let offsetMs = 0;
    return {
      read: () => {
        offsetMs = this.#offsetMs();
        read = Atomics.load(this.#buckets, entry() * BUCKETS + which);
        bits[0] = read;
        return (number[0] ?? 0) - offsetMs;
      },
      replace: (_, fullAtMs) => {
        const next = bitsOf(fullAtMs + offsetMs);
        const at = entry() * BUCKETS + which;
        return Atomics.compareExchange(this.#buckets, at, read, next) === read;
      },
    };
  }

  /** From this process's monotonic time to that of the machine. A machine that sleeps may change it. */
  #offsetMs(): number {
    return this.#machineMs() - performance.now();
  }

  #slotsOf(entry: () => number): SlotCounter {
    const slots = this.#slots;
    const held = this.#held;
    const first = this.#process * ENTRIES;
    return {
      get count() {
        return Atomics.load(slots, entry());
      },
      take(most) {
        for (;;) {
          const at = entry();
          const count = Atomics.load(slots, at);
          if (most > 0 && count >= most) return false;
          if (Atomics.compareExchange(slots, at, count, count + 1) !== count) continue;
          if (entry() === at) {
            Atomics.add(held, first + at, 1);
            return true;
          }
          // Another name got the entry in this moment.
          Atomics.sub(slots, at, 1);
        }
      },
      release() {
        const at = entry();
        const before = Atomics.sub(held, first + at, 1);
        assert(before > 0, "a slot is released twice");
        Atomics.sub(slots, at, 1);
      },
    };
  }

  /** The entry with the name, or else one that is free. Undefined if all places of the name are in use. */
  #placeOf(hash: bigint): number | undefined {
    const first = Number(BigInt.asUintN(32, hash >> 8n)) % ENTRIES;
    let free: number | undefined;
    for (let step = 0; step < PLACES; step += 1) {
      const entry = (first + step) % ENTRIES;
      const name = Atomics.load(this.#names, entry);
      if (name === hash) return entry;
      if (free === undefined && (name === 0n || this.#isIdle(entry))) free = entry;
      if (name === 0n) break;
    }
    if (free === undefined) return undefined;
    const before = Atomics.load(this.#names, free);
    if (Atomics.compareExchange(this.#names, free, before, hash) !== before)
      return this.#placeOf(hash);
    return free;
  }

  /** All buckets are full and no slot is in use: the entry is as good as none. */
  #isIdle(entry: number): boolean {
    if (Atomics.load(this.#slots, entry) !== 0) return false;
    const nowMs = this.#machineMs();
    const number = new Float64Array(1);
    const bits = new BigInt64Array(number.buffer);
    for (let which = 0; which < BUCKETS; which += 1) {
      bits[0] = Atomics.load(this.#buckets, entry * BUCKETS + which);
      if ((number[0] ?? 0) > nowMs) return false;
    }
    return true;
  }
}
