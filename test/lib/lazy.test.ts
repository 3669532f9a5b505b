import { expect, test } from "bun:test";
import { lazyParts } from "../../src/lib/lazy.ts";

test("makes each part once, at its first read", () => {
  const made: string[] = [];
  const parts = lazyParts({
    one: () => made.push("one"),
    other: () => made.push("other"),
    absent: () => void made.push("absent"),
  });
  expect([made, Object.keys(parts)]).toEqual([[], ["one", "other", "absent"]]);
  expect([parts.other, parts.one, parts.other, parts.absent, parts.absent]).toEqual([
    1,
    2,
    1,
    undefined,
    undefined,
  ]);
  expect(made).toEqual(["other", "one", "absent"]);
});
