import { describe, expect, test } from "bun:test";
import {
  refuseLongPromptCacheTtl,
  usesLongPromptCacheTtl,
} from "../../src/contract/requestFields.ts";
import { refusalOf } from "./refusal.ts";

const hour = { cache_control: { type: "ephemeral", ttl: "1h" } };
const cacheMessageFor = async (body: Record<string, unknown>) => {
  const refusal = await refusalOf(() => refuseLongPromptCacheTtl(body));
  if (refusal !== undefined) expect(refusal.status).toBe(400);
  return refusal?.message;
};

describe("a cache that costs more than the usual one is a 400", () => {
  const text = { type: "text", text: "x", ...hour };
  test.each<[string, Record<string, unknown>]>([
    ["of the whole request", hour],
    ["of a message", { messages: [{ role: "user", content: "x", ...hour }] }],
    ["of a part", { messages: [{ role: "user", content: [{ type: "text" }, text] }] }],
    [
      "of a part in a part",
      { messages: [{ content: [{ type: "tool_result", content: [text] }] }] },
    ],
    ["of a tool", { tools: [{ type: "function", function: { name: "f" }, ...hour }] }],
    ["of a function", { tools: [{ type: "function", function: { name: "f", ...hour } }] }],
    ["of Anthropic's own instructions", { system: [text] }],
    ["of an item of an input", { input: [{ role: "user", content: [text] }] }],
    ["in other letters", { Cache_Control: { type: "ephemeral", TTL: "1h" } }],
    ["for no known time", { cache_control: { type: "ephemeral", ttl: 300 } }],
  ])("%s", async (_, body) => {
    expect(await cacheMessageFor(body)).toBe("cache_control beyond 5m is not supported");
  });
});

test.each<[string, Record<string, unknown>, boolean | undefined]>([
  ["an hour", { messages: [{ ...hour }] }, true],
  ["an hour and five minutes", { ...hour, tools: [{ cache_control: { ttl: "5m" } }] }, true],
  ["five minutes", { cache_control: { ttl: "5m" } }, false],
  ["no time", { cache_control: {} }, false],
  ["an hour and another time", { ...hour, tools: [{ cache_control: { ttl: "2h" } }] }, undefined],
  ["another time in other letters", { cache_control: { Ttl: "1H" } }, undefined],
])("a cache for an hour is noted, and another time is a 400: %s", async (_, body, expected) => {
  let isLong: boolean | undefined;
  const refusal = await refusalOf(() => {
    isLong = usesLongPromptCacheTtl(body);
  });
  expect([isLong, refusal?.message]).toEqual([
    expected,
    expected === undefined ? "cache_control beyond 5m is not supported" : undefined,
  ]);
});

test.each<[string, Record<string, unknown>]>([
  ["without a time", { cache_control: { type: "ephemeral" } }],
  ["for the usual time", { messages: [{ cache_control: { type: "ephemeral", ttl: "5m" } }] }],
  ["for no time", { cache_control: { ttl: null } }],
  ["that is none", { cache_control: null, ttl: "1h", metadata: { ttl: "1h" } }],
  [
    "whose words a schema bears",
    { parameters: { properties: { cache_control: { properties: { ttl: {} } } } } },
  ],
])("a cache passes: %s", async (_, body) => {
  expect(await cacheMessageFor(body)).toBeUndefined();
});
