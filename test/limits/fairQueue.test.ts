import { describe, expect, test } from "bun:test";
import { rejectionOf } from "../support/gateway/httpClient.ts";
import { createFairQueue } from "../../src/limits/fairQueue.ts";
import type { Pause } from "../../src/store/store.ts";
import { until } from "../support/until.ts";

type Job = (pause: Pause) => Promise<string>;

/** Turns, and work of so many steps, each of which takes so long by a clock of the test's own. */
function setup(readsBlock = true) {
  let nowMs = 0;
  const seen: string[] = [];
  const clock = { monotonicMs: () => nowMs, epochMs: () => 0 };
  const fairQueue = createFairQueue(clock, readsBlock);
  const work = (name: string, count: number, stepMs: number): Job => {
    return async (pause) => {
      for (let step = 0; step < count; step += 1) {
        nowMs += stepMs;
        seen.push(name);
        await pause();
      }
      return `${name} is done`;
    };
  };
  /** Rejects where the account has too much under way. */
  const run = async (accountId: number, job: Job): Promise<string> => {
    const running = fairQueue.run(accountId, job);
    if (running === undefined) throw new Error("too much is under way");
    return await running;
  };
  /** Work that waits so many times for rows, which take longer than a turn, and pauses after each wait. */
  const reading = (name: string, reads: number, rows: Rows): Job => {
    return async (pause) => {
      for (let read = 0; read < reads; read += 1) {
        seen.push(name);
        seen.push(await rows.next(name));
        nowMs += 10;
        await pause();
      }
      return `${name} is done`;
    };
  };
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
    const failed = rejectionOf(
      run(1, async (pause) => {
        await pause();
        throw new Error("a step failed");
      }),
    );
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

  test("lets two jobs wait for a server at once, and the others where one of them pauses", async () => {
    const { run, seen, reading } = setup(false);
    const rows = new Rows();
    const jobs = ["a", "b", "c"].map((name, at) => run(at, reading(name, 3, rows)));
    await until("two wait", () => rows.names === "ab");
    for (let read = 0; read < 9; read += 1) {
      await until("one waits", () => rows.names !== "");
      rows.arrive();
    }
    expect(await Promise.all(jobs)).toEqual(["a is done", "b is done", "c is done"]);
    expect(seen.filter((name) => name.length === 1).join("")).toBe("abcabcabc");
  });

  test("goes on with other jobs where the wait of one fails", async () => {
    const { run, reading } = setup(false);
    const rows = new Rows();
    const failed = ["a", "b"].map((name) => rejectionOf(run(1, reading(name, 1, rows))));
    const other = run(2, reading("c", 1, rows));
    for (const name of ["a", "b"]) {
      await until(`${name} waits`, () => rows.names.startsWith(name));
      rows.arrive(new Error(`${name} is lost`));
    }
    expect(await Promise.all(failed)).toEqual([new Error("a is lost"), new Error("b is lost")]);
    await until("the other one waits", () => rows.names === "c");
    rows.arrive();
    expect(await other).toBe("c is done");
  });
});
