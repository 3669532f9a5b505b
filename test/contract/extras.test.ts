import { describe, expect, test } from "bun:test";
import { mostOf, refuseExtras } from "../../src/contract/extras.ts";
import { noPrice } from "../support/gateway/noPrice.ts";
import { refusalOf } from "./refusal.ts";

const refusesImages = { refusedTools: ["image_generation"], allowedTools: [] };
const image = { type: "image_generation" };
const messageFor = async (tools: unknown, refused = ["image_generation", "web_search"]) => {
  const refusal = await refusalOf(() =>
    refuseExtras({ tools }, { refusedTools: refused, allowedTools: [] }),
  );
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
    const refusal = await refusalOf(() => refuseExtras({ input }, refusesImages));
    expect(refusal?.status).toBe(400);
    expect(refusal?.message).toBe("tools of the type image_generation are not supported");
  });

  test("but not what it says", async () => {
    const input = [
      { role: "user", content: [{ type: "input_text", text: "image_generation" }] },
      { type: "tool_search_call", arguments: { goal: { tools: [image] } } },
    ];
    expect(await refusalOf(() => refuseExtras({ input }, refusesImages))).toBeUndefined();
  });
});

const allows = (...allowedTools: string[]) => ({ refusedTools: [], allowedTools });
const messageOf = async (body: Record<string, unknown>, ...allowed: string[]) =>
  (await refusalOf(() => refuseExtras(body, allows(...allowed))))?.message;

/** Tools that cost only tokens, or that pass although they cost more. */
const freeTools: readonly unknown[] = [
  undefined,
  null,
  { type: "function", name: "f" },
  {
    type: "function",
    function: { name: "image_generation", parameters: { properties: { type: image } } },
  },
  { type: "custom", name: "f" },
  { name: "f", input_schema: {} },
  { type: null, name: "f", input_schema: {} },
  { function: { name: "f" } },
  { type: "namespace", name: "n", tools: [{ type: "function", name: "f" }] },
  ...["local_shell", "apply_patch", "computer", "computer_use_preview", "mcp", "tool_search"].map(
    (type) => ({ type }),
  ),
  { type: "shell", environment: { type: "local" } },
  ...[
    "bash_20250124",
    "computer_20251124",
    "memory_20250818",
    "text_editor_20250728",
    "web_fetch_20250910",
    "tool_search_tool_bm25",
    "tool_search_tool_regex_20251119",
    "mcp_toolset",
  ].map((type) => ({ type })),
  ...["web_search", "web_search_preview", "web_search_2025_08_26", "web_search_20250305"].map(
    (type) => ({ type }),
  ),
];

test.each(freeTools.map((tool) => [tool]))(
  "a tool that costs only tokens passes: %j",
  async (tool) => {
    expect(await messageOf({ tools: tool === undefined ? tool : [tool] })).toBeUndefined();
  },
);

/** Tools that may cost more, and a name that allows each. */
const extraTools: readonly (readonly [tool: object, shown: string, allowed: string])[] = [
  [image, "tools of the type image_generation", "image_generation"],
  [
    { type: "code_interpreter", container: { type: "auto" } },
    "tools of the type code_interpreter",
    "code_interpreter",
  ],
  [{ type: "shell" }, "tools of the type shell", "shell"],
  [{ type: "shell", environment: { type: "container_auto" } }, "tools of the type shell", "shell"],
  [
    { type: "code_execution_20250825" },
    "tools of the type code_execution_20250825",
    "code_execution",
  ],
  [
    { type: "code_execution_20250825" },
    "tools of the type code_execution_20250825",
    "code_execution_20250825",
  ],
  [
    { type: "openrouter:web_search" },
    "tools of the type openrouter:web_search",
    "openrouter:web_search",
  ],
  [
    { type: "builtin_function", function: { name: "$web_search" } },
    "tools of the type builtin_function",
    "builtin_function",
  ],
  [{ type: "made_next_month" }, "tools of the type made_next_month", "made_next_month"],
  [{ type: "bash" }, "tools of the type bash", "bash"],
  [{ google_search: {} }, "tools of the type google_search", "google_search"],
  [{ type: "\u202e" }, "tools of an unknown type", "\u202e"],
];

describe("a tool that may cost more is a 400 unless it is allowed", () => {
  test.each(extraTools)("%j", async (tool, shown, allowed) => {
    const message = `${shown} are not supported: ${noPrice}`;
    const bodies = [
      { tools: [{ type: "function", name: "f" }, tool] },
      { tools: tool },
      { tools: [{ type: "namespace", name: "n", tools: [tool] }] },
      { input: [{ type: "additional_tools", tools: [tool] }] },
    ];
    for (const body of bodies) {
      expect(await messageOf(body)).toBe(message);
      expect(await messageOf(body, allowed)).toBeUndefined();
      expect(await messageOf(body, "another")).toBe(message);
    }
  });

  test("but not one that an earlier answer only lists", async () => {
    const input = [{ type: "mcp_list_tools", tools: [{ type: "made_next_month" }] }];
    expect(await messageOf({ input })).toBeUndefined();
  });
});

/** Fields that may cost more, and values of the same field that do not. */
const extraFields: readonly (readonly [name: string, extra: unknown, ...free: unknown[]])[] = [
  ["modalities", ["text", "audio"], ["text"], []],
  ["modalities", "audio", null],
  ["audio", { voice: "alloy" }, null],
  ["web_search_options", {}, null],
  ["search_parameters", { mode: "auto" }, { mode: "off" }],
  ["enable_search", true, false],
  ["web_search", { enable: true }, { enable: false }, false],
  ["plugins", [{ id: "web" }], null, []],
  ["speed", "turbo", "standard", "fast"],
  ["inference_geo", "us", "global"],
  [
    "service_tier",
    "scale",
    "auto",
    "default",
    "standard_only",
    "flex",
    "priority",
    "fast",
    "batch",
  ],
  ["serviceTier", "priority", "standard"],
];

describe("a field that may cost more is a 400 unless it is allowed", () => {
  test.each(extraFields)("%s: %j", async (name, extra, ...free) => {
    expect(await messageOf({ [name]: extra })).toBe(`${name} is not supported: ${noPrice}`);
    expect(await messageOf({ [name]: extra }, name)).toBeUndefined();
    for (const value of free) expect(await messageOf({ [name]: value })).toBeUndefined();
  });

  test.each(["responseModalities", "response_modalities"])("generationConfig.%s", async (name) => {
    const body = { generationConfig: { [name]: ["TEXT", "IMAGE"] } };
    const path = `generationConfig.${name}`;
    expect(await messageOf(body)).toBe(`${path} is not supported: ${noPrice}`);
    expect(await messageOf(body, path)).toBeUndefined();
    expect(await messageOf({ generationConfig: { [name]: ["TEXT"] } })).toBeUndefined();
  });

  test("also in other case", async () => {
    expect(await messageOf({ Search_Parameters: {} })).toBe("Search_Parameters is not supported");
  });
});

test.each<[body: Record<string, unknown>, count: number]>([
  [{ tools: [{ type: "function", name: "f" }] }, 0],
  [{ tools: [{ type: "web_search" }] }, 20],
  [{ tools: [{ type: "web_search" }], max_tool_calls: 3 }, 3],
  [{ tools: [{ type: "web_search" }], max_tool_calls: 1e9 }, 1000],
  [{ input: [{ type: "additional_tools", tools: [{ type: "web_search_preview" }] }] }, 20],
])("%j holds for %d web searches", (body, count) => {
  expect(mostOf(body, body["max_tool_calls"]).webSearches ?? 0).toBe(count);
});
