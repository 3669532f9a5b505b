import { expect, test } from "bun:test";
import { nearest } from "../../src/lib/nearest.ts";

const keys = ["base_url", "api_key", "api_key_file", "id", "kind", "weight"];

test.each([
  ["base_ulr", "base_url"],
  ["baseurl", "base_url"],
  ["base_uri", "base_url"],
  ["API_KEY", "api_key"],
  ["apikey", "api_key"],
  ["Id", "id"],
  ["kidn", "kind"],
  ["wieght", "weight"],
  ["x", undefined],
  ["model", undefined],
  ["", undefined],
  ["base", undefined],
  ["base_url".repeat(1000), undefined],
])("%.20s is most likely %s", (word, meant) => {
  expect(nearest(word, keys)).toBe(meant);
});

test("among nothing there is nothing near", () => expect(nearest("a", [])).toBeUndefined());
