import { describe, expect, test } from "bun:test";
import { formatRoubles, NANO_ROUBLES_MAX, parseRoubles } from "../../src/lib/money.ts";
import { seededRandom } from "../support/seededRandom.ts";

describe("roubles as text", () => {
  test.each([
    ["0", 0n],
    ["100", 100_000_000_000n],
    ["12.5", 12_500_000_000n],
    ["-3", -3_000_000_000n],
    ["0.000000001", 1n],
    ["-0.000000001", -1n],
    ["9007199.254740993", 2n ** 53n + 1n],
    ["4000000000", NANO_ROUBLES_MAX],
    ["-4000000000", -NANO_ROUBLES_MAX],
  ])("%s is %d nano-roubles, both ways", (text, nano) => {
    expect(parseRoubles(text)).toBe(nano);
    expect(formatRoubles(nano)).toBe(text);
  });

  test.each([
    ["007", 7_000_000_000n],
    ["1.50", 1_500_000_000n],
    ["-0", 0n],
    ["0.000000000", 0n],
  ])("%s may be typed and is %d", (text, nano) => {
    expect(parseRoubles(text)).toBe(nano);
  });

  test.each([
    "",
    " ",
    "-",
    ".",
    "1.",
    ".5",
    "+1",
    "1e3",
    "0x10",
    "1,5",
    "1 000",
    "1_000",
    " 1",
    "1 ",
    "1\n",
    "--1",
    "1.2.3",
    "0.0000000001",
    "4000000000.000000001",
    "-4000000000.000000001",
    "10000000000",
    "99999999999999999999",
    "NaN",
    "Infinity",
    "\u0661",
    "\uff11",
  ])("%j is no amount", (text) => {
    expect(parseRoubles(text)).toBeUndefined();
  });

  test("survive the way there and back, whatever the amount", () => {
    const random = seededRandom(1);
    for (let round = 0; round < 10_000; round++) {
      let nano = 0n;
      for (let digits = 1 + random.below(19); digits > 0; digits--) {
        nano = nano * 10n + BigInt(random.below(10));
      }
      if (nano > NANO_ROUBLES_MAX) nano /= 10n;
      if (random.chance(0.5)) nano = -nano;
      expect(parseRoubles(formatRoubles(nano))).toBe(nano);
    }
  });

  test("are exact beyond what may be typed: a sum of amounts has up to 64 bits", () => {
    expect(formatRoubles(2n ** 63n - 1n)).toBe("9223372036.854775807");
    expect(formatRoubles(-(2n ** 63n))).toBe("-9223372036.854775808");
  });
});
