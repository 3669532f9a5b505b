import { describe, expect, test } from "bun:test";
import { importWeb } from "../../support/web/importWeb.ts";
import type * as spending from "../../../src/web/page/spending.ts";

const { daysLeft, modelSums, spendingOf, spendingQuery, spendingSeries, stepSums } =
  await importWeb<typeof spending>("page/spending.ts");

const nowMs = Date.parse("2026-11-24T03:20:00Z");

function row(fields: Partial<spending.UsageRow>): spending.UsageRow {
  return {
    requests: 1,
    prompt_tokens: 10,
    cached_tokens: 0,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    completion_tokens: 5,
    web_searches: 0,
    cost_rub: "1",
    refunded_rub: "0",
    failed: 0,
    ...fields,
  };
}

const week = spendingOf(
  {
    object: "list",
    data: [
      row({ day: "2026-11-17", model: "large", cost_rub: "99" }),
      row({ day: "2026-11-18", model: "large", cost_rub: "0.000000001" }),
      row({ day: "2026-11-24", model: "large", cost_rub: "2.5", requests: 3, failed: 1 }),
      row({ day: "2026-11-24", model: "small", cost_rub: "4", cached_tokens: 8 }),
    ],
  },
  "7d",
  nowMs,
);

describe("the spending of a span", () => {
  test("asks for the whole days that the span touches", () => {
    expect(spendingQuery("24h")).toEqual({ by: "hour,model", since: "1d" });
    expect(spendingQuery("7d")).toEqual({ by: "day,model", since: "6d" });
    expect(spendingQuery("90d")).toEqual({ by: "day,model", since: "89d" });
  });

  test("has a step for each day, also those without use, and nothing from before", () => {
    expect(week.times).toHaveLength(7);
    expect(week.times[0]).toBe("2026-11-18T00:00:00.000Z");
    expect(week.rows).toHaveLength(3);
  });

  test("has the last 24 hours", () => {
    const day = spendingOf(
      {
        object: "list",
        data: [
          row({ hour: "2026-11-23T03:00:00.000Z", model: "large" }),
          row({ hour: "2026-11-23T04:00:00.000Z", model: "large" }),
          row({ hour: "2026-11-24T03:00:00.000Z", model: "large" }),
        ],
      },
      "24h",
      nowMs,
    );
    expect(day.times).toHaveLength(24);
    expect(day.times[0]).toBe("2026-11-23T04:00:00.000Z");
    expect(day.rows).toHaveLength(2);
  });

  test("gives the chart one series for each model, in each unit", () => {
    const zeros = ["0", "0", "0", "0", "0"];
    expect(spendingSeries(week, "roubles")).toEqual([
      { name: "large", values: ["0.000000001", ...zeros, "2.5"] },
      { name: "small", values: ["0", ...zeros, "4"] },
    ]);
    expect(spendingSeries(week, "requests")[0]?.values.at(-1)).toBe(3);
    expect(spendingSeries(week, "tokens")[0]?.values.at(-1)).toBe(15);
  });

  test("adds up by model, the most expensive first, to the nano-rouble", () => {
    expect(modelSums(week).map(({ name, costRub }) => [name, costRub])).toEqual([
      ["small", "4"],
      ["large", "2.500000001"],
    ]);
    expect(modelSums(week)[1]).toMatchObject({
      requests: 4,
      failed: 1,
      prompt: 20,
      completion: 10,
    });
  });

  test("adds up by step, the latest first", () => {
    const steps = stepSums(week);
    expect(steps).toHaveLength(7);
    expect(steps[0]).toMatchObject({ costRub: "6.5", requests: 4, cached: 8 });
    expect(steps[1]).toMatchObject({ costRub: "0", requests: 0 });
  });

  test("tells how many days the money lasts at the pace of the span", () => {
    expect(daysLeft("13", week)).toBe(13);
    const today = week.rows.filter(({ day }) => day === "2026-11-24");
    expect(daysLeft("13", { ...week, rows: today })).toBe(2);
    expect(daysLeft("0.5", week)).toBe(0);
    expect(daysLeft("-1", week)).toBe(0);
    expect(daysLeft("13", { ...week, rows: [] })).toBeUndefined();
  });
});
