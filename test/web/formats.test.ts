import { describe, expect, test } from "bun:test";
import { createFormats, type MoneyStyle } from "../../src/web/formats.ts";
import { console } from "../../src/web/words/console.ts";
import { page } from "../../src/web/words/page.ts";
import { bothPages } from "../../src/web/words/bothPages.ts";
import type { Tree } from "../../src/web/words/words.ts";

const english = createFormats("en-GB", "Europe/Moscow");
const russian = createFormats("ru-RU", "Europe/Moscow");
/** The languages separate by narrow and non-breaking spaces. */
const plain = (text: string) => text.replaceAll(/[\u00A0\u202F]/g, " ");

describe("an amount", () => {
  const rows: readonly (readonly [string, MoneyStyle, string, string])[] = [
    ["0", "short", "₽0.00", "0,00 ₽"],
    ["12.5", "short", "₽12.50", "12,50 ₽"],
    ["-1234567.899", "short", "-₽1,234,567.90", "-1 234 567,90 ₽"],
    ["0.004567", "short", "₽0.0046", "0,0046 ₽"],
    ["0.000000001", "short", "₽0.000000001", "0,000000001 ₽"],
    ["12.5", "exact", "₽12.50", "12,50 ₽"],
    ["0.123456789", "exact", "₽0.123456789", "0,123456789 ₽"],
    // A float would have fewer digits.
    ["3999999999.999999999", "exact", "₽3,999,999,999.999999999", "3 999 999 999,999999999 ₽"],
    ["1.5", 4, "₽1.5000", "1,5000 ₽"],
  ];
  test.each(rows)("of %s in the style %s", (amount, style, inEnglish, inRussian) => {
    expect(english.money(amount, style)).toBe(inEnglish);
    expect(plain(russian.money(amount, style))).toBe(inRussian);
    expect(
      russian
        .moneyParts(amount, style)
        .map(({ value }) => value)
        .join(""),
    ).toBe(russian.money(amount, style));
  });
});

test.each([
  [0, "0ms", "0 мс"],
  [999, "999ms", "999 мс"],
  [1240, "1.24s", "1,24 с"],
  [59_999, "60s", "60 с"],
  [125_000, "2m 5s", "2 мин 5 с"],
] as const)("a duration of %d ms", (ms, inEnglish, inRussian) => {
  expect(plain(english.duration(ms))).toBe(inEnglish);
  expect(plain(russian.duration(ms))).toBe(inRussian);
});

test("times have the time zone of the reader, days that of the reports", () => {
  const atMs = Date.parse("2026-11-23T22:30:00Z");
  expect(english.dateTime(atMs)).toBe("24 Nov 2026, 01:30:00");
  expect(english.step(atMs, "hour", "short")).toBe("01:30");
  expect(english.step(atMs, "day", "short")).toBe("23 Nov");
  expect(russian.step(atMs, "day", "long")).toBe("понедельник, 23 ноября");
});

test.each([
  [-90_000, "1 minute ago"],
  [-5_000, "5 seconds ago"],
  [3 * 86_400_000, "in 3 days"],
  [-86_400_000, "yesterday"],
] as const)("a moment %d ms from now", (ms, text) => {
  expect(english.relative(1e12 + ms, 1e12)).toBe(text);
});

test.each([
  [1, "1 request", "1 запрос"],
  [3, "3 requests", "3 запроса"],
  [11, "11 requests", "11 запросов"],
  [21_000, "21,000 requests", "21 000 запросов"],
] as const)("%d with its noun", (count, inEnglish, inRussian) => {
  expect(bothPages.requests[0](count)).toBe(inEnglish);
  expect(plain(bothPages.requests[1](count))).toBe(inRussian);
});

test.each([bothPages, page, console])("each word has both languages", (tree: Tree) => {
  for (const [name, words] of pairsOf(tree)) {
    const kinds = words.map((word) => [typeof word, Array.isArray(word) ? word.length : 1]);
    expect([name, words.length, kinds[0]]).toEqual([name, 2, kinds[1]]);
  }
});

function pairsOf(tree: Tree): (readonly [name: string, words: readonly unknown[]])[] {
  return Object.entries(tree).flatMap(([name, word]) =>
    Array.isArray(word) ? [[name, word] as const] : pairsOf(word as Tree),
  );
}
