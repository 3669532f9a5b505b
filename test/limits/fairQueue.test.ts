import { describe, expect, test } from "bun:test";
import { rejectionOf } from "../support/gateway/httpClient.ts";
import { createFairQueue } from "../../src/limits/fairQueue.ts";

/** Turns, and work of so many steps, each of which takes so long by a clock of the test's own. */
function setup() {
  let nowMs = 0;
  const seen: string[] = [];
  const fairQueue = createFairQueue({ monotonicMs: () => nowMs, epochMs: () => 0 });
  function* work(name: string, count: number, stepMs: number): Generator<undefined, string> {
    for (let step = 0; step < count; step += 1) {
      nowMs += stepMs;
      seen.push(name);
      yield;
    }
    return `${name} is done`;
  }
  /** Rejects where the account has too much under way. */
  async function run(accountId: number, steps: Generator<undefined, string>): Promise<string> {
    const running = fairQueue.run(accountId, steps);
    if (running === undefined) throw new Error("too much is under way");
    return running;
  }
  return { seen, work, run };
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
    const failing = (function* (): Generator<undefined, string> {
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
});
