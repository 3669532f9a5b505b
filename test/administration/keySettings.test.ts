import { expect, test } from "bun:test";
import { readSettings, type SettingTexts } from "../../src/administration/keySettings.ts";
import { InvalidValue } from "../../src/administration/values.ts";
import { DAY_MS } from "../../src/lib/clock.ts";

const now = Date.parse("2026-06-15T12:00:00Z");

const texts = {
  label: "laptop",
  expires: "30d",
  rpm: "60",
  tpm: "0",
  concurrent: "2",
  models: "small, gi*",
  budget: "12.5",
};

test("the text of each setting is read", () => {
  const values = {
    label: "laptop",
    expires: now + 30 * DAY_MS,
    rpm: 60,
    tpm: 0,
    concurrent: 2,
    models: ["small", "gi*"],
    budget: 12_500_000_000n,
  };
  expect(readSettings(texts, "create", now)).toEqual(values);
  expect(readSettings(texts, "set", now)).toEqual(values);
  expect(readSettings({}, "set", now)).toEqual({});
});

test("`none` removes a setting of a key that exists", () => {
  const none = Object.fromEntries(Object.keys(texts).map((name) => [name, "none"]));
  const removed = Object.fromEntries(Object.keys(texts).map((name) => [name, null]));
  expect(readSettings(none, "set", now)).toEqual(removed);
  expect(readSettings({ label: "none" }, "create", now)).toEqual({ label: "none" });
});

test.each<[keyof SettingTexts, string]>([
  ["label", ""],
  ["expires", "yesterday"],
  ["rpm", "none"],
  ["tpm", "-1"],
  ["concurrent", "1.5"],
  ["models", "a,,b"],
  ["budget", "0"],
])("a wrong %s is refused with its name", (name, text) => {
  let error: unknown;
  try {
    readSettings({ ...texts, [name]: text }, "create", now);
  } catch (thrown) {
    error = thrown;
  }
  expect(error).toBeInstanceOf(InvalidValue);
  expect(error).toMatchObject({ field: name });
});
