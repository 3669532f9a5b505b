import { describe, expect, test } from "bun:test";
import { readExtras, refusalOfExtra, type AskedExtra } from "../../src/contract/extras.ts";
import { figures, type ExtraName } from "../../src/contract/figures.ts";
import { noPrice, unsold } from "../support/gateway/noPrice.ts";
import { refusalOf } from "./refusal.ts";

const refusesImages = { refusedTools: ["image_generation"], allowedTools: [] };
const image = { type: "image_generation" };
const messageFor = async (tools: unknown, refused = ["image_generation", "web_search"]) => {
  const refusal = await refusalOf(() =>
    readExtras({ tools }, { refusedTools: refused, allowedTools: [] }),
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
    const refusal = await refusalOf(() => readExtras({ input }, refusesImages));
    expect(refusal?.status).toBe(400);
    expect(refusal?.message).toBe("tools of the type image_generation are not supported");
  });

  test("but not what it says", async () => {
    const input = [
      { role: "user", content: [{ type: "input_text", text: "image_generation" }] },
      { type: "tool_search_call", arguments: { goal: { tools: [image] } } },
    ];
    expect(await refusalOf(() => readExtras({ input }, refusesImages))).toBeUndefined();
  });
});

const allows = (...allowedTools: string[]) => ({ refusedTools: [], allowedTools });
type Sells = Readonly<Record<ExtraName, boolean>>;
const selling = (...sold: ExtraName[]): Sells =>
  Object.fromEntries(
    figures.map(({ name }) => [name, sold.some((one) => one === name)]),
  ) as unknown as Sells;

/** The message of the 400 over interfaces that count the extra, for a model that sells these figures. */
const messageFrom = async (
  body: Record<string, unknown>,
  allowed: readonly string[],
  ...sold: ExtraName[]
) => {
  let extras: readonly AskedExtra[] = [];
  const refusal = await refusalOf(() => {
    ({ extras } = readExtras(body, allows(...allowed)));
  });
  if (refusal) return refusal.message;
  const refusals = extras.flatMap(
    (extra) => (!extra.passes && refusalOfExtra(extra, selling(...sold), extra.over)) || [],
  );
  return refusals[0]?.message;
};
const messageOf = (body: Record<string, unknown>, ...allowed: string[]) =>
  messageFrom(body, allowed);

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

const imageTool = ["imageToolTextTokens", "imageToolInputTokens", "imageToolOutputTokens"] as const;
const imageKeys = ["text", "input", "output"].map((one) => `rub_image_tool_${one}_per_1m`);
const codeKeys = ["rub_code_session_per_1k"];

/** Tools that may cost more, a name that allows each, and what sells it. */
const extraTools: readonly (readonly [
  tool: object,
  type: string,
  allowed: string,
  keys: readonly string[],
  ...sold: ExtraName[],
])[] = [
  [image, "image_generation", "image_generation", imageKeys, ...imageTool],
  [image, "image_generation", "image_generation", imageKeys, "images"],
  [
    { type: "code_interpreter", container: { type: "auto" } },
    "code_interpreter",
    "code_interpreter",
    codeKeys,
    "codeSessions",
  ],
  [
    { type: "code_interpreter", container: { memory_limit: "4g" } },
    "code_interpreter",
    "code_interpreter",
    [],
  ],
  [{ type: "shell" }, "shell", "shell", codeKeys, "codeSessions"],
  [
    { type: "shell", environment: { type: "container_auto", memory_limit: "1g" } },
    "shell",
    "shell",
    codeKeys,
    "codeSessions",
  ],
  [
    { type: "shell", environment: { type: "container_auto", memory_limit: "64g" } },
    "shell",
    "shell",
    [],
  ],
  [
    { type: "code_execution_20250825" },
    "code_execution_20250825",
    "code_execution",
    codeKeys,
    "codeSessions",
  ],
  [
    { type: "code_execution_20250825" },
    "code_execution_20250825",
    "code_execution_20250825",
    codeKeys,
    "codeSessions",
  ],
  [
    { type: "file_search", vector_store_ids: [] },
    "file_search",
    "file_search",
    ["rub_file_search_per_1k"],
    "fileSearches",
  ],
  [
    { type: "x_search" },
    "x_search",
    "x_search",
    ["rub_x_post_per_1k", "rub_x_profile_per_1k"],
    "xPosts",
    "xProfiles",
  ],
  [{ type: "openrouter:web_search" }, "openrouter:web_search", "openrouter:web_search", []],
  [{ type: "live_search" }, "live_search", "live_search", []],
  [
    { type: "builtin_function", function: { name: "$web_search" } },
    "builtin_function",
    "builtin_function",
    [],
  ],
  [{ type: "made_next_month" }, "made_next_month", "made_next_month", []],
  [{ type: "advisor_20260301" }, "advisor_20260301", "advisor_20260301", []],
  [{ type: "bash" }, "bash", "bash", []],
  [
    { google_search: {} },
    "google_search",
    "google_search",
    ["rub_web_search_per_1k"],
    "webSearches",
  ],
  ...[
    { googleSearch: {}, name: "f" },
    { name: "f", input_schema: {}, googleSearch: {} },
    { type: "function", function: { name: "f" }, googleSearch: {} },
  ].map(
    (tool) =>
      [tool, "googleSearch", "google_search", ["rub_web_search_per_1k"], "webSearches"] as const,
  ),
  [{ type: "function", name: "f", codeExecution: {} }, "codeExecution", "codeExecution", []],
  [{ googleMaps: {} }, "googleMaps", "google_maps", ["rub_map_search_per_1k"], "mapSearches"],
];

const nameOf = (type: string) =>
  ({
    code_execution_20250825: "code_execution",
    googleMaps: "google_maps",
    googleSearch: "google_search",
  })[type] ?? type;

describe("a tool that may cost more is a 400 unless it is sold or allowed", () => {
  test.each(extraTools)("%j", async (tool, type, allowed, keys, ...sold) => {
    const shown = `tools of the type ${type} are not supported`;
    const isSold = keys.length > 0;
    const message = isSold ? `${shown}: ${unsold(nameOf(type), ...keys)}` : `${shown}: ${noPrice}`;
    const bodies = [
      { tools: [{ type: "function", name: "f" }, tool] },
      { tools: tool },
      { tools: [{ type: "namespace", name: "n", tools: [tool] }] },
      { input: [{ type: "additional_tools", tools: [tool] }] },
      { instructions: [{ type: "additional_tools", tools: [tool] }] },
    ];
    for (const body of bodies) {
      expect(await messageOf(body)).toBe(message);
      expect(await messageOf(body, allowed)).toBeUndefined();
      expect(await messageOf(body, "another")).toBe(message);
      expect(await messageFrom(body, [], ...sold)).toBe(isSold ? undefined : message);
    }
  });

  test("also one of an unknown type", async () => {
    const tools = [{ type: "\u202e" }];
    expect(await messageOf({ tools })).toBe(
      `tools of an unknown type are not supported: ${noPrice}`,
    );
  });

  test("but not one that an earlier answer only lists", async () => {
    const input = [{ type: "mcp_list_tools", tools: [{ type: "made_next_month" }] }];
    expect(await messageOf({ input })).toBeUndefined();
  });
});

/** Fields that may cost more, what sells them, and values of the same field that cost no more. */
const extraFields: readonly (readonly [
  name: string,
  extra: unknown,
  sold: readonly [key: string, figure: ExtraName] | undefined,
  ...free: unknown[],
])[] = [
  ["modalities", ["text", "audio"], ["rub_audio_output_per_1m", "audioOutputTokens"], ["text"], []],
  ["modalities", ["text", "image"], ["rub_image_output_per_1m", "imageOutputTokens"], null],
  ["modalities", ["video"], undefined],
  ["audio", { voice: "alloy" }, ["rub_audio_output_per_1m", "audioOutputTokens"], null],
  ["web_search_options", {}, undefined, null],
  ["search_parameters", { mode: "auto" }, undefined, { mode: "off" }],
  ["enable_search", true, undefined, false],
  ["web_search", { enable: true }, undefined, { enable: false }, false],
  ["plugins", [{ id: "web" }], undefined, null, []],
  ["speed", "turbo", undefined, "standard", "fast"],
  ["inference_geo", "us", undefined, "global"],
  ["service_tier", "scale", undefined, "auto", "default", "standard_only", "flex", "priority"],
  ["service_tier", "scales", undefined, "batch", "fast"],
  ["serviceTier", "priority", undefined, "standard"],
];

describe("a field that may cost more is a 400 unless it is sold or allowed", () => {
  test.each(extraFields)("%s: %j", async (name, extra, sold, ...free) => {
    const reason = sold ? unsold(name, sold[0]) : noPrice;
    const message = `${name} is not supported: ${reason}`;
    expect(await messageOf({ [name]: extra })).toBe(message);
    expect(await messageOf({ [name]: extra }, name)).toBeUndefined();
    if (sold) expect(await messageFrom({ [name]: extra }, [], sold[1])).toBeUndefined();
    for (const value of free) expect(await messageOf({ [name]: value })).toBeUndefined();
  });

  test.each(["responseModalities", "response_modalities"])("generationConfig.%s", async (name) => {
    const body = { generationConfig: { [name]: ["TEXT", "IMAGE"] } };
    const path = `generationConfig.${name}`;
    const message = `${path} is not supported: ${unsold(path, "rub_image_output_per_1m")}`;
    expect(await messageOf(body)).toBe(message);
    expect(await messageOf(body, path)).toBeUndefined();
    expect(await messageFrom(body, [], "imageOutputTokens")).toBeUndefined();
    expect(await messageOf({ generationConfig: { [name]: ["TEXT"] } })).toBeUndefined();
    // A chat has no place for the audio of Google.
    const audio = { generationConfig: { [name]: ["IMAGE", "AUDIO"] } };
    expect(await messageFrom(audio, [], "imageOutputTokens", "audioOutputTokens")).toBe(
      `${path} is not supported: ${noPrice}`,
    );
  });

  test("also in other case", async () => {
    expect(await messageOf({ Search_Parameters: {} })).toBe("Search_Parameters is not supported");
    expect(await messageOf({ Max_Tool_Calls: 9 })).toBe("Max_Tool_Calls is not supported");
  });
});

const search = { type: "web_search" };
const searchOld = { type: "web_search_preview" };
const imageCalls = (calls: number) => ({
  imageToolTextTokens: calls * 2000,
  imageToolInputTokens: calls * 10_000,
  imageToolOutputTokens: calls * 6540,
  images: calls,
});

test.each<[body: Record<string, unknown>, most: object, toolCallsMax: number | undefined]>([
  [{ tools: [{ type: "function", name: "f" }] }, {}, undefined],
  [{ tools: [search] }, { webSearches: 20 }, 20],
  [{ tools: [search], max_tool_calls: 3 }, { webSearches: 3 }, undefined],
  [{ tools: [search], max_tool_calls: 0 }, { webSearches: 0 }, undefined],
  [{ tools: [search], max_tool_calls: "3" }, { webSearches: 20 }, 20],
  [{ tools: [search], max_tool_calls: -3 }, { webSearches: 20 }, 20],
  [{ tools: [search, search], max_tool_calls: 1e9 }, { webSearches: 1000 }, 1000],
  [{ input: [{ type: "additional_tools", tools: [searchOld] }] }, { webSearchPreviews: 20 }, 20],
  [{ tools: [image, search] }, { ...imageCalls(4), webSearches: 4 }, 4],
  [{ tools: [image, search], max_tool_calls: 9 }, { ...imageCalls(9), webSearches: 9 }, undefined],
  [{ tools: [{ type: "x_search" }] }, { xPosts: 150, xProfiles: 50 }, 5],
])("%j holds for the calls that it may make", (body, most, toolCallsMax) => {
  const asked = readExtras(body, allows(), { toolCallsBound: body["max_tool_calls"] });
  const counted = Object.entries(asked.most).filter(([name, count]) => count > 0 || name in most);
  expect(Object.fromEntries(counted)).toEqual({ ...most });
  expect(asked.toolCallsMax).toBe(toolCallsMax);
});
