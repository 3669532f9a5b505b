import { describe, expect, test } from "bun:test";
import {
  refuseTools,
  refuseLongPromptCacheTtl,
  usesLongPromptCacheTtl,
} from "../../src/contract/requestFields.ts";
import { refusalOf } from "./refusal.ts";

const image = { type: "image_generation" };
const messageFor = async (tools: unknown, refused = ["image_generation", "web_search"]) => {
  const refusal = await refusalOf(() => refuseTools({ tools }, refused));
  if (refusal !== undefined) expect(refusal.status).toBe(400);
  return refusal?.message;
};

describe("a tool of a refused type is a 400 that names it", () => {
  const words = "tools of the type image_generation are not supported";
  test.each<[string, unknown]>([
    ["alone", [image]],
    ["behind others", [{ type: "function", name: "f" }, image]],
    ["that is no list", image],
    ["in a list in the list", [[image]]],
    ["among the tools of another", [{ type: "namespace", name: "n", tools: [image] }]],
  ])("%s", async (_, tools) => {
    expect(await messageFor(tools)).toBe(words);
  });

  test("whichever of them it is", async () => {
    expect(await messageFor([{ type: "web_search" }])).toBe(
      "tools of the type web_search are not supported",
    );
  });

  test("a hundred thousand levels down: no recursion", async () => {
    const depth = 100_000;
    const nested = `${'{"tools":['.repeat(depth)}${JSON.stringify(image)}${"]}".repeat(depth)}`;
    expect(await messageFor([JSON.parse(nested)])).toBe(words);
  });
});

describe("so is one that an item of an input brings", () => {
  test.each<[string, unknown]>([
    ["for the rest of it", [{ type: "additional_tools", role: "developer", tools: [image] }]],
    ["found by a search", [{ role: "user" }, { type: "tool_search_output", tools: [image] }]],
    ["of any type", [{ type: "not known yet", tools: [{ type: "namespace", tools: [image] }] }]],
    ["that is no list", { type: "additional_tools", tools: image }],
    ["in a list in the list", [[{ type: "additional_tools", tools: [image] }]]],
  ])("%s", async (_, input) => {
    const refusal = await refusalOf(() => refuseTools({ input }, ["image_generation"]));
    expect(refusal?.status).toBe(400);
    expect(refusal?.message).toBe("tools of the type image_generation are not supported");
  });

  test("but not what it says", async () => {
    const input = [
      { role: "user", content: [{ type: "input_text", text: "image_generation" }] },
      { type: "tool_search_call", arguments: { goal: { tools: [image] } } },
    ];
    expect(await refusalOf(() => refuseTools({ input }, ["image_generation"]))).toBeUndefined();
  });
});

test.each<[string, unknown]>([
  ["none", undefined],
  ["null", null],
  ["of another type", [{ type: "web_search_preview" }, { type: "image" }, "image_generation", 5]],
  [
    "a function with a parameter of that name",
    [
      {
        type: "function",
        function: { name: "image_generation", parameters: { properties: { type: image } } },
      },
    ],
  ],
])("all other tools pass: %s", async (_, tools) => {
  expect(await messageFor(tools)).toBeUndefined();
});

test("where the operator refuses none, all tools pass", async () => {
  expect(await messageFor([image], [])).toBeUndefined();
});

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
