import { describe, expect, test } from "bun:test";
import { checkUsageQuery } from "../../src/contract/usageQuery.ts";
import { DAY_MS } from "../../src/lib/time.ts";
import { refusalOf } from "./refusal.ts";

/** The last moment of a day. */
const now = Date.UTC(2026, 10, 22) - 1;
const badRequest = { status: 400, type: "invalid_request_error" };

function read(query: string): string {
  const { by, days } = checkUsageQuery(new URLSearchParams(query), now);
  const date = (day: number) => new Date(day * DAY_MS).toISOString().slice(0, 10);
  return `${by}, ${date(days.from)} to ${date(days.to)}`;
}

describe("a query of the usage", () => {
  test.each([
    ["", "day, 2026-10-23 to 2026-11-22"],
    ["by=model", "model, 2026-10-23 to 2026-11-22"],
    ["since=0d", "day, 2026-11-21 to 2026-11-22"],
    ["since=7d", "day, 2026-11-14 to 2026-11-22"],
    ["since=2026-11-21", "day, 2026-11-21 to 2026-11-22"],
    ["until=0d", "day, 2026-10-22 to 2026-11-21"],
    ["until=2026-03-01", "day, 2026-01-30 to 2026-03-01"],
    ["until=2026-02-01&since=2026-01-01&by=day", "day, 2026-01-01 to 2026-02-01"],
    ["since=2024-02-29&until=2024-03-01", "day, 2024-02-29 to 2024-03-01"],
    ["since=365d", "day, 2025-11-21 to 2026-11-22"],
    ["since=2025-01-01&until=2026-01-02", "day, 2025-01-01 to 2026-01-02"],
    ["until=2100-01-01", "day, 2099-12-02 to 2100-01-01"],
    ["since=1969-12-31&until=1970-01-02", "day, 1969-12-31 to 1970-01-02"],
  ])("%j is read as %s", (query, expected) => {
    expect(read(query)).toBe(expected);
  });

  const timeIs =
    "must be a date such as 2026-11-01, or a number of days back from today such as 7d";
  const texts = [
    ["", " 7d", "7d ", "7d\n", "٧d", "7", "d", "-7d", "+7d", "1.5d", "123456d", "24h", "7D"],
    ["yesterday", "2026-11", "2026-1-1", "2026-02-29", "2026-13-01", "2026-11-00", "20261101"],
    ["+002026-11-01", "2026-11-01T00:00:00Z", "1e3d", "NaN", "0x7d"],
  ].flat();
  test.each(texts)("%j is no time", async (text) => {
    for (const name of ["since", "until"]) {
      const query = new URLSearchParams({ [name]: text });
      const refusal = await refusalOf(() => checkUsageQuery(query, now));
      expect(refusal).toMatchObject({ ...badRequest, message: `${name} ${timeIs}` });
    }
  });

  const others = "only the parameters by, since and until are accepted";
  test.each([
    ["by=", "by must be one of: day, model"],
    ["by=provider", "by must be one of: day, model"],
    ["by=Day", "by must be one of: day, model"],
    ["by=__proto__", "by must be one of: day, model"],
    ["by=day&by=day", "by stands twice"],
    ["since=7d&since=7d", "since stands twice"],
    ["until=7d&until=8d", "until stands twice"],
    ["account=alice", others],
    ["By=day", others],
    ["by[]=day", others],
    ["api_key=sk-tg-secret", others],
    ["since=7d&until=7d", "since must be earlier than until"],
    ["since=6d&until=7d", "since must be earlier than until"],
    ["since=2026-11-22", "since must be earlier than until"],
    ["since=2026-11-02&until=2026-11-01", "since must be earlier than until"],
    ["since=366d", "since and until must be at most 366 days apart"],
    ["since=2025-01-01&until=2026-01-03", "since and until must be at most 366 days apart"],
    ["since=99999d", "since and until must be at most 366 days apart"],
  ])("%j is refused: %s", async (query, message) => {
    expect(await refusalOf(() => read(query))).toMatchObject({ ...badRequest, message });
  });
});
