import { describe, expect, test } from "bun:test";
import type { Clock } from "../../src/lib/clock.ts";
import { idMaker, systemRandom, type Random } from "../../src/lib/random.ts";

const FORM = /^req_[0-9a-hjkmnp-tv-z]{20}$/;

/** A clock that a test sets. */
function clockAt(epochMs: number): Clock & { epoch: number } {
  const clock = { epoch: epochMs, epochMs: () => clock.epoch, monotonicMs: () => 0 };
  return clock;
}

describe("an id", () => {
  test("says what it names and has no character that is misread", () => {
    const newId = idMaker(clockAt(1_767_225_600_000), systemRandom);
    for (let round = 0; round < 1000; round++) expect(newId("req")).toMatch(FORM);
    expect(newId("key")).toStartWith("key_");
  });

  test("sorts by its time, as text", () => {
    const clock = clockAt(0);
    const newId = idMaker(clock, systemRandom);
    const times = [
      0,
      1,
      31,
      32,
      1023,
      1024,
      1_767_225_600_000,
      1_767_225_600_001,
      2 ** 44,
      2 ** 45 - 1,
    ];
    const ids = times.map((time) => {
      clock.epoch = time;
      return newId("req");
    });
    expect(ids.toSorted()).toEqual(ids);
    for (const id of ids) expect(id).toMatch(FORM);
  });

  test("is another one each time, also within a millisecond", () => {
    const newId = idMaker(clockAt(1), systemRandom);
    expect(new Set(Array.from({ length: 100_000 }, () => newId("req"))).size).toBe(100_000);
  });

  test("takes 55 bits from the random bytes and no more than their lower five bits each", () => {
    const asked: number[] = [];
    const random: Random = {
      bytes(length) {
        asked.push(length);
        return new Uint8Array(length).fill(0xff);
      },
      fraction: () => 0,
    };
    expect(idMaker(clockAt(0), random)("x")).toBe("x_000000000zzzzzzzzzzz");
    expect(asked).toEqual([11]);
  });
});
