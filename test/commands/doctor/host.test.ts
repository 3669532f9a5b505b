import { describe, expect, test } from "bun:test";
import { judgeClock, judgeDisk } from "../../../src/commands/doctor/host.ts";

const now = Date.UTC(2026, 6, 1);

describe("the clock", () => {
  test.each([
    ["before there are books", now, "none"],
    ["in the moment of the last entry", now, now],
    ["put back by less than a minute", now, now + 60_000],
  ] as const)("is right %s", (_, nowMs, lastEntry) => {
    expect(judgeClock(nowMs, lastEntry).ok).toBe(true);
  });

  test.each([
    ["that was never set", 0, "none", "which is impossible: correct it"],
    ["that was put back further", now, now + 60_001, "but the last ledger entry is from"],
    ["where the books cannot be read", now, "unknown", "not compared with the ledger"],
  ] as const)("is amiss %s", (_, nowMs, lastEntry, words) => {
    const { ok, lines } = judgeClock(nowMs, lastEntry);
    expect(ok).toBe(false);
    expect(lines.join("\n")).toContain(words);
  });
});

test("the disk needs room for the write-ahead log beside its minimum", () => {
  const disk = { database: "/srv/t.db", freeBytes: 300_000_000, walBytes: 50_000_000 };
  expect(judgeDisk(disk).ok).toBe(true);
  expect(judgeDisk({ ...disk, walBytes: disk.walBytes + 1 }).ok).toBe(false);
});

test("a log that somebody keeps from being taken over is amiss, however much room there is", () => {
  const disk = { database: "/data/t.db", freeBytes: 1e12, walBytes: 256 * 1024 * 1024 };
  expect(judgeDisk(disk).ok).toBe(true);
  const { ok, lines } = judgeDisk({ ...disk, walBytes: disk.walBytes + 1 });
  expect(ok).toBe(false);
  expect(lines.join("\n")).toContain("find the program (`fuser /data/t.db`) and end it");
});
