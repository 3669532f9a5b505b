import { describe, expect, test } from "bun:test";
import { usageDays, type UsageQuery } from "../../src/contract/account/usageReport.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { refusalOf } from "./refusal.ts";

/** The last moment of a day. */
const now = Date.UTC(2026, 10, 22) - 1;

function read(query: UsageQuery): string {
  const { from, to } = usageDays(query, now);
  const date = (day: number) => new Date(day * DAY_MS).toISOString().slice(0, 10);
  return `${date(from)} to ${date(to)}`;
}

describe("the days of a usage report", () => {
  test.each<[UsageQuery, string]>([
    [{}, "2026-10-23 to 2026-11-22"],
    [{ since: "0d" }, "2026-11-21 to 2026-11-22"],
    [{ since: "7d" }, "2026-11-14 to 2026-11-22"],
    [{ since: "2026-11-21" }, "2026-11-21 to 2026-11-22"],
    [{ until: "0d" }, "2026-10-22 to 2026-11-21"],
    [{ until: "2026-03-01" }, "2026-01-30 to 2026-03-01"],
    [{ until: "2026-02-01", since: "2026-01-01" }, "2026-01-01 to 2026-02-01"],
    [{ since: "2024-02-29", until: "2024-03-01" }, "2024-02-29 to 2024-03-01"],
    [{ by: "hour" }, "2026-11-19 to 2026-11-22"],
    [{ by: "hour", since: "0d" }, "2026-11-21 to 2026-11-22"],
    [{ by: "hour,model", until: "2026-03-01" }, "2026-02-26 to 2026-03-01"],
    [{ by: "day,model" }, "2026-10-23 to 2026-11-22"],
    [{ since: "365d" }, "2025-11-21 to 2026-11-22"],
    [{ since: "2025-01-01", until: "2026-01-02" }, "2025-01-01 to 2026-01-02"],
    [{ until: "2100-01-01" }, "2099-12-02 to 2100-01-01"],
    [{ since: "1969-12-31", until: "1970-01-02" }, "1969-12-31 to 1970-01-02"],
  ])("of %j are %s", (query, expected) => {
    expect(read(query)).toBe(expected);
  });

  const order = "since must be earlier than until";
  const hourlySpan = "since and until must be at most 3 days apart in a report by hour";
  const span = "since and until must be at most 366 days apart";
  test.each<[UsageQuery, string]>([
    [{ since: "7d", until: "7d" }, order],
    [{ since: "6d", until: "7d" }, order],
    [{ since: "2026-11-22" }, order],
    [{ since: "2026-11-02", until: "2026-11-01" }, order],
    [{ since: "366d" }, span],
    [{ since: "2025-01-01", until: "2026-01-03" }, span],
    [{ since: "99999d" }, span],
    [{ by: "day,model", since: "366d" }, span],
    [{ by: "hour", since: "3d" }, hourlySpan],
    [{ by: "hour,model", since: "366d" }, hourlySpan],
  ])("of %j are refused: %s", async (query, message) => {
    expect(await refusalOf(() => read(query))).toMatchObject({
      status: 400,
      type: "invalid_request_error",
      message,
    });
  });
});
