import { describe, expect, test } from "bun:test";
import { rejectionOf } from "../support/gateway/httpClient.ts";
import { createFairQueue } from "../../src/limits/fairQueue.ts";
import { waitFor } from "../../src/store/steps.ts";
import type { Steps } from "../../src/store/store.ts";
import { until } from "../support/until.ts";

/** Turns, and work of so many steps, each of which takes so long by a clock of the test's own. */
function setup() {
  let nowMs = 0;
  const seen: string[] = [];
  const fairQueue = createFairQueue({ monotonicMs: () => nowMs, epochMs: () => 0 });
  function* work(name: string, count: number, stepMs: number): Steps<string> {
    for (let step = 0; step < count; step += 1) {
      nowMs += stepMs;
      seen.push(name);
      yield;
    }
    return `${name} is done`;
  }
  /** Rejects where the account has too much under way. */
  async function run(accountId: number, steps: Steps<string>): Promise<string> {
    const running = fairQueue.run(accountId, steps);
    if (running === undefined) throw new Error("too much is under way");
    return running;
  }
  /** Work that waits for rows so many times, and then may pause, so many times. */
  function* reading(name: string, reads: number, pauses: number, rows: Rows): Steps<string> {
    for (let pause = 0; pause < pauses; pause += 1) {
      for (let read = 0; read < reads; read += 1) {
        seen.push(name);
        seen.push(yield* waitFor(rows.next(name)));
      }
      yield;
    }
    return `${name} is done`;
  }
  return { seen, work, reading, run };
}

/** Rows that arrive when the test says so. */
class Rows {
  readonly waiting: { readonly name: string; readonly row: PromiseWithResolvers<string> }[] = [];

  get names(): string {
    return this.waiting.map(({ name }) => name).join("");
  }

  next(name: string): Promise<string> {
    const row = Promise.withResolvers<string>();
    this.waiting.push({ name, row });
    return row.promise;
  }

  /** Ends the wait of the one that waits longest. */
  arrive(error?: Error): void {
    const first = this.waiting.shift();
    if (error === undefined) first?.row.resolve(`row of ${first.name}`);
    else first?.row.reject(error);
  }
}

describe("the fair queue", () => {
  test("runs all steps of a short job in one turn, and resolves with its result", async () => {
    const { run, seen, work } = setup();
    expect(await run(1, work("a", 4, 1))).toBe("a is done");
    expect(seen).toEqual(["a", "a", "a", "a"]);
  });

  test("ends a turn after 5 ms, and runs turns of other jobs between", async () => {
    const { run, seen, work } = setup();
    await Promise.all([run(1, work("a", 6, 2)), run(2, work("b", 4, 3))]);
    expect(seen.join("")).toBe("aaabbaaabb");
  });

  test("lets a long step end, and then runs other jobs", async () => {
    const { run, seen, work } = setup();
    await Promise.all([run(1, work("a", 3, 7)), run(2, work("b", 1, 1))]);
    expect(seen.join("")).toBe("abaa");
  });

  test("pauses after a turn for four times its duration", async () => {
    const { run, work } = setup();
    const startedMs = performance.now();
    let others = 0;
    const timer = setInterval(() => (others += 1), 1);
    await run(1, work("a", 6, 5));
    clearInterval(timer);
    // Between six turns, and before the end is seen, there are six rests of 20 ms.
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(115);
    expect(others).toBeGreaterThan(5);
  });

  test("goes on after a job that throws", async () => {
    const { run, work } = setup();
    const failing = (function* (): Steps<string> {
      yield;
      throw new Error("a step failed");
    })();
    const failed = rejectionOf(run(1, failing));
    const other = run(1, work("a", 1, 1));
    expect(await failed).toEqual(new Error("a step failed"));
    expect(await other).toBe("a is done");
  });

  test("runs four jobs of an account at once and refuses the fifth, until one ends", async () => {
    const { run, seen, work } = setup();
    const four = ["a", "b", "c", "d"].map((name) => run(1, work(name, 2, 1)));
    expect(await rejectionOf(run(1, work("e", 1, 1)))).toEqual(new Error("too much is under way"));
    const other = run(2, work("f", 1, 1));
    expect(await Promise.all(four)).toEqual(["a", "b", "c", "d"].map((name) => `${name} is done`));
    expect(await other).toBe("f is done");
    expect(await run(1, work("g", 1, 1))).toBe("g is done");
    expect(seen).not.toContain("e");
  });

  test("runs other jobs while one waits for its rows", async () => {
    const { run, seen, work, reading } = setup();
    const rows = new Rows();
    const waiting = run(1, reading("a", 1, 1, rows));
    expect(await run(2, work("b", 2, 1))).toBe("b is done");
    expect(seen).toEqual(["a", "b", "b"]);
    rows.arrive();
    expect(await waiting).toBe("a is done");
    expect(seen).toEqual(["a", "b", "b", "row of a"]);
  });

  test("lets two jobs wait for rows at once, and the next one where one of them may pause", async () => {
    const { run, reading } = setup();
    const rows = new Rows();
    const jobs = ["a", "b", "c"].map((name, at) => run(at, reading(name, 2, 1, rows)));
    await until("two wait", () => rows.names === "ab");
    rows.arrive();
    // It goes on before the others: a connection may wait for it.
    await until("the first one waits again", () => rows.names === "ba");
    rows.arrive();
    rows.arrive();
    await until("one is done, and the last one waits", () => rows.names === "bc");
    for (let left = 3; left > 0; left -= 1) {
      await until("one waits", () => rows.names !== "");
      rows.arrive();
    }
    expect(await Promise.all(jobs)).toEqual(["a is done", "b is done", "c is done"]);
  });

  test("lets jobs that wait for rows take turns at their pauses", async () => {
    const { run, seen, reading } = setup();
    const rows = new Rows();
    const jobs = ["a", "b", "c"].map((name, at) => run(at, reading(name, 1, 3, rows)));
    for (let read = 0; read < 9; read += 1) {
      await until("one waits", () => rows.names !== "");
      rows.arrive();
    }
    await Promise.all(jobs);
    expect(seen.filter((name) => name.length === 1).join("")).toBe("abcabcabc");
  });

  test("tells the steps of a failed wait, and goes on with other jobs where they fail of it", async () => {
    const { run, reading } = setup();
    const rows = new Rows();
    const told: unknown[] = [];
    const failing = (function* (): Steps<string> {
      try {
        return yield* reading("a", 1, 1, rows);
      } finally {
        told.push("ended");
      }
    })();
    const failed = [failing, reading("b", 1, 1, rows)].map((steps) => rejectionOf(run(1, steps)));
    const other = run(2, reading("c", 1, 1, rows));
    for (const name of ["a", "b"]) {
      await until(`${name} waits`, () => rows.names.startsWith(name));
      rows.arrive(new Error(`${name} is lost`));
    }
    expect(await Promise.all(failed)).toEqual([new Error("a is lost"), new Error("b is lost")]);
    expect(told).toEqual(["ended"]);
    await until("the other one waits", () => rows.names === "c");
    rows.arrive();
    expect(await other).toBe("c is done");
  });
});
