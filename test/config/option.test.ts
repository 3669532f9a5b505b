import { describe, expect, test } from "bun:test";
import { parse } from "smol-toml";
import { Inspection } from "../../src/config/inspection.ts";
import type { Option, Options } from "../../src/config/option.ts";
import { sections } from "../../src/config/sections.ts";
import { configOf, loadText, minimal } from "./loadText.ts";

const duration = (range: string) =>
  `must be a duration in the form "500ms", "30s", "5m", "24h" or "90d", from ${range}`;

/** One key of each kind in a whole file: a value, what is read, what is refused, and the words of the problem. */
describe.each<
  [
    key: string,
    field: string,
    accepted: readonly (readonly [text: string, value: unknown])[],
    refused: readonly string[],
    problem: string,
  ]
>([
  [
    "server.max_body",
    "server.maxBodyBytes",
    [
      ['"1KB"', 1024],
      ['"1GB"', 1024 ** 3],
    ],
    ['"1023B"', '"20 MB"', '"20mb"', '"1.5MB"', '"-1MB"', '"20"', '""', '"9999999999999B"'],
    'must be a size in the form "512KB" or "20MB", from 1KB to 1GB',
  ],
  [
    "server.shutdown_grace",
    "server.shutdownGraceMs",
    [
      ['"0ms"', 0],
      ['"60m"', 3_600_000],
    ],
    ['"61m"', '"-1s"', '"1.5s"', '"30"', '"30S"', '"30 s"', '"s"', '"1h30m"', '"1e3s"', '" 1s"'],
    duration("0s to 1h"),
  ],
  [
    "database.keep_requests",
    "database.keepRequestsMs",
    [['"36500d"', 36_500 * 86_400_000]],
    ['"59m"', '"999999999999d"'],
    duration("1h to 36500d"),
  ],
  [
    "server.sse_keepalive",
    "server.sseKeepaliveMs",
    [],
    ["30", "true", "2020-01-01"],
    'must be a duration in quotes, such as "30s"',
  ],
  [
    "billing.min_output_tokens",
    "billing.minOutputTokens",
    [
      ["1", 1],
      ["100_000_000", 100_000_000],
    ],
    ["0", "-1", "16.0", '"16"', "true", "9223372036854775807", "nan", "inf"],
    "must be a whole number from 1 to 100000000",
  ],
  [
    "log.level",
    "log.level",
    [['"silent"', "silent"]],
    ['"other"', '""', '"DEBUG"', "1", "true"],
    'must be one of: "debug", "info", "warn", "error", "silent"',
  ],
  [
    "server.page",
    "server.page",
    [["false", false]],
    ['"true"', "1", "[]"],
    "must be true or false, without quotes",
  ],
])("%s", (key, field, accepted, refused, problem) => {
  const textWith = (value: string) => `${key} = ${value}\n${minimal}`;
  test.each(accepted.map(([text, value]) => ({ text, value })))("reads $text", (one) => {
    expect(configOf(textWith(one.text))).toHaveProperty(field, one.value);
  });
  test.each([...refused])("refuses %s", (text) => {
    expect(loadText(textWith(text)).problems).toEqual([`${key}: ${problem}`]);
  });
});

const entries = entriesIn(sections);
test("all keys are examined", () => expect(entries.length).toBeGreaterThan(100));

test.each(entries)("%s has the default that it shows, and refuses another type", (_, option) => {
  const read = readerOf(option);
  const { value, problems } = read(undefined);
  expect(problems).toEqual(option.isRequired ? [`is required: ${option.form}`] : []);
  if (option.default !== undefined) {
    const { x } = parse(`x = ${option.default}`, { integersAsBigInt: true });
    expect(read(x)).toEqual({ value, problems: [] });
  }
  expect(read(Number.NaN).problems).toEqual([`must be ${option.form}`]);
  expect(read("x".repeat(8193)).problems).toEqual(["must have at most 8192 characters"]);
});

const ranges = entries.flatMap(([key, option]) =>
  option.range === undefined ? [] : [[key, option.range, option] as const],
);
test.each(ranges)("%s is from %s", (_, range, option) => {
  const read = readerOf(option);
  const [least = "", most = ""] = range.split(" to ");
  const isNumber = /^\d+$/.test(least);
  const [min, max] = [least, most].map((text) => read(isNumber ? BigInt(text) : text));
  expect([min?.problems, max?.problems]).toEqual([[], []]);
  const ends = isNumber ? [least, most] : [min?.value, max?.value];
  for (const amount of [Number(ends[0]) - 1, Number(ends[1]) + 1]) {
    const unit = least.endsWith("B") ? "B" : "ms";
    const [problem, ...others] = read(isNumber ? BigInt(amount) : `${amount}${unit}`).problems;
    expect(problem).toEndWith(`from ${range}`);
    expect(others).toEqual([]);
  }
});

const choices = entries.filter(([, { form }]) => form.startsWith("one of: "));
test.each(choices)("%s takes each of its words", (_, option) => {
  for (const [, word] of option.form.matchAll(/"([^"]+)"/g))
    expect(readerOf(option)(word)).toEqual({ value: word, problems: [] });
});

/** Reads values of one key. The problems are without the key. */
function readerOf(option: Option<unknown>) {
  const [key] = option.keys;
  return (written: unknown) => {
    const inspection = new Inspection("/", 0);
    const value = option.read(written === undefined ? {} : { [key]: written }, "", inspection);
    return { value, problems: inspection.problems.map((line) => line.slice(`${key}: `.length)) };
  };
}

/** Every entry, with the first of its keys. */
function entriesIn(options: Options): readonly (readonly [string, Option<unknown>])[] {
  return Object.values(options).flatMap((option) => {
    const inside = option.options === undefined ? [] : entriesIn(option.options);
    return [[option.keys[0], option] as const].concat(inside);
  });
}
