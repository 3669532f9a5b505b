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

  test("takes the lower five bits of eleven random bytes, and each byte once", () => {
    let next = 0;
    const random: Random = {
      bytes: (length) => Uint8Array.from({ length }, () => 0xe0 | (next++ & 31)),
      fraction: () => 0,
    };
    const newId = idMaker(clockAt(0), random);
    const ids = Array.from({ length: 200 }, () => newId("x").slice("x_000000000".length));
    const expected = "0123456789abcdefghjkmnpqrstvwxyz".repeat((200 * 11) / 32 + 1);
    expect(ids.join("")).toBe(expected.slice(0, 200 * 11));
  });
});
