import { describe, expect, test } from "bun:test";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { judgeClock, judgeDisk } from "../../../src/commands/doctor/host.ts";

const now = Date.UTC(2026, 6, 1);

describe("the clock", () => {
  test.each([
    ["before the first entry", now, "none"],
    ["at the time of the last entry", now, now],
    ["set back by less than a minute", now, now + 60_000],
    ["after 30 days without an entry", now, now - 30 * DAY_MS],
  ] as const)("passes %s", (_, nowMs, lastEntry) => {
    expect(judgeClock(nowMs, lastEntry).ok).toBe(true);
  });

  test.each([
    ["if it was never set", 0, "none", "which is impossible: correct it"],
    ["if it was set back further", now, now + 60_001, "but the last entry of the database is from"],
    ["if it is far ahead", now + 45 * DAY_MS, now, "45 days after the last entry of the database"],
    ["if the database cannot be read", now, "unknown", "not compared with the database"],
  ] as const)("fails %s", (_, nowMs, lastEntry, words) => {
    const { ok, lines } = judgeClock(nowMs, lastEntry);
    expect(ok).toBe(false);
    expect(lines.join("\n")).toContain(words);
  });
});

test("the disk needs free space for the write-ahead log in addition to its minimum", () => {
  const disk = { database: "/srv/t.db", freeBytes: 300_000_000, walBytes: 50_000_000 };
  expect(judgeDisk(disk).ok).toBe(true);
  expect(judgeDisk({ ...disk, walBytes: disk.walBytes + 1 }).ok).toBe(false);
});

test("a write-ahead log over its maximum fails even on a disk with free space", () => {
  const disk = { database: "/data/t.db", freeBytes: 1e12, walBytes: 256 * 1024 * 1024 };
  expect(judgeDisk(disk).ok).toBe(true);
  const { ok, lines } = judgeDisk({ ...disk, walBytes: disk.walBytes + 1 });
  expect(ok).toBe(false);
  expect(lines.join("\n")).toContain("find the program (`fuser /data/t.db`) and end it");
});
