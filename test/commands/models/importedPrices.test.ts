import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import {
  chatModel,
  type Fields,
  importAll,
  importSample,
  providers,
  sampleDocument,
} from "./priceList.ts";

let cli: CliFolder;
beforeAll(async () => {
  cli = await openCliFolder(providers);
}, 60_000);
afterAll(() => cli.remove());

type Words = readonly string[];
const run = (kind: string, models: string, ...more: Words) =>
  importSample(cli, kind, models, ...more);
const sample = (kind: string, models: string, ...more: Words) =>
  sampleDocument(cli, kind, models, ...more);
/** The output from the first table. */
const tables = (stdout: string) => stdout.slice(stdout.indexOf("[[models]]"));

describe("prices are exact and rounded up to thousandths of a rouble", () => {
  // The expected values are computed with fractions. In floating point the rows with a star are one too high.
  test.each([
    ["1.25e-06", "92.4517", "20", 138_678, 115_565],
    ["3e-07", "92.5", "10", 30_525, 27_750], // *
    ["1.5e-05", "88.2", "0", 1_323_000, 1_323_000], // *
    ["1.5e-05", "90", "20", 1_620_000, 1_350_000], // *
    ["1e-07", "90", "30", 11_700, 9000], // *
    ["0.000002", "92.5", "12.5", 208_125, 185_000],
    ["1.4999999999999999e-06", "1", "0", 1500, 1500],
    ["1.5000000000000000000000001e-06", "1", "0", 1501, 1501],
    ["2.5E-07", "92.4517", "0.1", 23_137, 23_113],
    ["2.8e-07", "92.4517", "33.333333333", 34_516, 25_887],
    ["1e-09", "0.000000001", "0", 1, 1],
    ["1e+0", "0.9", "11", 999_000_000, 900_000_000],
    ['"1e-06"', "11.7", "15", 13_455, 11_700],
  ])("%s for a token at %s with %s %%", async (cost, rate, margin, price, ownCost) => {
    const fields = { ...chatModel, input_cost_per_token: cost };
    const { models } = await importAll(cli, { some: fields }, "--rate", rate, "--margin", margin);
    expect(models).toMatchObject([
      { rub_input_per_1m: price, routes: [{ rub_cost_input_per_1m: ownCost }] },
    ]);
  });

  test("also of caches and of 1,000 searches", async () => {
    const { models } = await sample("anthropic", "claude-sonnet-4-5", "--margin", "10");
    expect(models).toMatchObject([
      {
        rub_input_per_1m: 305_250,
        rub_output_per_1m: 1_526_250,
        rub_cached_input_per_1m: 30_525,
        rub_cache_write_per_1m: 381_563,
        rub_cache_write_1h_per_1m: 610_500,
        rub_web_search_per_1k: 1_017_500,
        tiers: [
          {
            above_prompt_tokens: 200_000,
            rub_input_per_1m: 610_500,
            rub_output_per_1m: 2_289_375,
            rub_cached_input_per_1m: 61_050,
            rub_cache_write_per_1m: 763_125,
            rub_cache_write_1h_per_1m: 1_221_000,
          },
        ],
        routes: [
          {
            rub_cost_input_per_1m: 277_500,
            rub_cost_output_per_1m: 1_387_500,
            rub_cost_cached_input_per_1m: 27_750,
            rub_cost_cache_write_per_1m: 346_875,
            rub_cost_cache_write_1h_per_1m: 555_000,
            rub_cost_web_search_per_1k: 925_000,
            tiers: [{ above_prompt_tokens: 200_000, rub_cost_input_per_1m: 555_000 }],
          },
        ],
      },
    ]);
  });
});

describe("a model that the list describes in more detail than the config can", () => {
  test.each<readonly [kind: string, name: string, keys: object, notes: readonly string[]]>([
    [
      "gemini",
      "gemini/gemini-2.5-pro",
      {
        id: "gemini-2.5-pro",
        rub_input_per_1m: 115_625,
        rub_output_per_1m: 925_000,
        rub_web_search_per_1k: 3_237_500,
        tiers: [
          {
            above_prompt_tokens: 200_000,
            rub_input_per_1m: 231_250,
            rub_output_per_1m: 1_387_500,
          },
        ],
        list_name: "gemini/gemini-2.5-pro",
      },
      [],
    ],
    [
      "openai",
      "dashscope/qwen-plus",
      {
        id: "qwen-plus",
        rub_input_per_1m: 37_000,
        rub_output_per_1m: 370_000,
        tiers: [
          {
            above_prompt_tokens: 256_000,
            rub_input_per_1m: 111_000,
            rub_output_per_1m: 1_110_000,
          },
        ],
        context_tokens: 997_952,
      },
      ["Reasoning costs more than other output. Its price is used for all output."],
    ],
    [
      "anthropic",
      "claude-3-opus-20240229",
      { rub_cache_write_per_1m: 1_734_375, rub_cache_write_1h_per_1m: 1_734_375 },
      [
        "In the list a cache write for 1 hour costs less than one for 5 minutes. The higher price is used for both.",
        "The list says that the provider ends this model on 2026-05-01.",
      ],
    ],
    [
      "openai",
      "gpt-4o-audio-preview",
      {
        rub_input_per_1m: 231_250,
        rub_audio_input_per_1m: 3_700_000,
        rub_audio_output_per_1m: 7_400_000,
      },
      [],
    ],
    ["openai", "gpt-5-pro", { routes: [{ api: "responses", responses: true }] }, []],
    [
      "openai",
      "text-embedding-3-small",
      { kind: "embedding", rub_input_per_1m: 1850, context_tokens: 8191 },
      [],
    ],
    [
      "openai",
      "ollama/llama3.2",
      { id: "llama3.2", rub_input_per_1m: 0, rub_output_per_1m: 0, free: true },
      [],
    ],
    [
      "openai",
      "deepseek/deepseek-chat",
      { rub_cached_input_per_1m: 2590, max_output_tokens: null, context_tokens: 131_072 },
      [],
    ],
  ])("over %s: %s", async (kind, name, keys, notes) => {
    const { models } = await sample(kind, name);
    expect(models).toMatchObject([{ ...keys, notes }]);
  });

  const priority = {
    input_cost_per_token_priority: "2e-06",
    output_cost_per_token_priority: "4e-06",
  };
  test.each<readonly [what: string, fields: Fields, keys: object, notes: readonly string[]]>([
    [
      "a service that costs more has no price of the cache",
      { ...priority, cache_read_input_token_cost: "1e-07" },
      { service_tiers: { priority: { rub_cached_input_per_1m: 200 } } },
      [
        "The list has no price of cached input tokens in the service tier priority: it is taken to rise as the others.",
      ],
    ],
    [
      "a service that costs less has none",
      {
        input_cost_per_token_flex: "5e-07",
        output_cost_per_token_flex: "1e-06",
        cache_read_input_token_cost: "1e-07",
      },
      { service_tiers: { flex: { rub_input_per_1m: 500, rub_output_per_1m: 1000 } } },
      [],
    ],
    [
      "a service has a price of long prompts",
      { ...priority, input_cost_per_token_above_200k_tokens_priority: "3e-06" },
      {
        service_tiers: {
          priority: { tiers: [{ above_prompt_tokens: 200_000, rub_input_per_1m: 3000 }] },
        },
      },
      [],
    ],
    [
      "a fast answer costs six times as much",
      {
        provider_specific_entry: '{"fast": 6.0}',
        input_cost_per_token_above_200k_tokens: "2e-06",
        search_context_cost_per_query: '{"low": 0.01}',
      },
      {
        service_tiers: {
          fast: {
            rub_input_per_1m: 6000,
            rub_output_per_1m: 12_000,
            tiers: [{ above_prompt_tokens: 200_000, rub_input_per_1m: 12_000 }],
          },
        },
      },
      ["The list has a price of web searches, and the gateway does not sell them over this route."],
    ],
    [
      "two borders, of which the second does not name all prices",
      {
        input_cost_per_token_above_128k_tokens: "2e-06",
        output_cost_per_token_above_128k_tokens: "3e-06",
        input_cost_per_token_above_272k_tokens: "4e-06",
      },
      {
        tiers: [
          { above_prompt_tokens: 128_000, rub_input_per_1m: 2000, rub_output_per_1m: 3000 },
          { above_prompt_tokens: 272_000, rub_input_per_1m: 4000, rub_output_per_1m: 3000 },
        ],
      },
      [],
    ],
    [
      "a price that only long prompts have",
      {
        input_cost_per_token_above_200k_tokens: "2e-06",
        cache_creation_input_token_cost_above_200k_tokens: "1e-07",
      },
      { tiers: [{ above_prompt_tokens: 200_000, rub_input_per_1m: 2000 }] },
      [
        "Not in these prices, because the config cannot express it: cache_creation_input_token_cost_above_200k_tokens.",
      ],
    ],
  ])("keeps what can be sold where %s", async (_, fields, keys, notes) => {
    const { models } = await importAll(cli, { some: { ...chatModel, ...fields } });
    expect(models).toMatchObject([{ ...keys, notes }]);
  });

  test.each<Fields>([
    { input_cost_per_token_flex: "0.0", output_cost_per_token_flex: "1e-06" },
    { input_cost_per_token_flex: "1e-06" },
    { provider_specific_entry: '{"fast": 0}' },
  ])("sells no service tier of %j", async (fields) => {
    const { models } = await importAll(cli, { some: { ...chatModel, ...fields } });
    expect(models[0]).toHaveProperty("rub_input_per_1m", 1000);
    expect(models[0]).not.toHaveProperty("service_tiers");
  });

  test("has comments in the tables", async () => {
    const { stdout } = await run("openai", "dashscope/*");
    expect(tables(stdout)).toStartWith(`[[models]]
# In the list: dashscope/qwen-plus
# Reasoning costs more than other output. Its price is used for all output.
id = "qwen-plus"
rub_input_per_1m = 37000
`);
  });

  test("has no price of a cache that costs 0, and no key that does not apply to it", async () => {
    const [deepseek] = (await sample("openai", "deepseek/*")).models;
    expect(deepseek).not.toHaveProperty("rub_cache_write_per_1m");
    const [embedding] = (await sample("openai", "text-*")).models;
    for (const key of ["rub_output_per_1m", "max_output_tokens", "free"])
      expect(embedding).not.toHaveProperty(key);
  });

  test.each<readonly [fields: Fields, note: string]>([
    [{ input_cost_per_request: "0.005" }, "input_cost_per_request"],
    [{ off_peak_pricing: '{"start": "16:30"}' }, "off_peak_pricing"],
    [{ provider_specific_entry: '{"us": 1.1}' }, "provider_specific_entry"],
    [{ tiered_pricing: '[{"output_cost_per_image": 1}]' }, "output_cost_per_image"],
  ])("has a note on %j", async (fields, name) => {
    const { models } = await importAll(cli, { some: { ...chatModel, ...fields } });
    expect(models[0]?.notes).toEqual([
      `Not in these prices, because the config cannot express it: ${name}.`,
    ]);
  });

  test.each<Fields>([
    {
      input_cost_per_audio_token: "0.0",
      output_cost_per_image: "null",
      metadata: '{"cost": "low"}',
    },
    {
      input_cost_per_token_above_200k_tokens_priority: "1",
      source: '"https://example.com/pricing"',
    },
    {
      cache_read_input_token_cost: "null",
      search_context_cost_per_query: '{"search_context_size_low": null}',
    },
  ])("has no note on %j", async (fields) => {
    const { models } = await importAll(cli, { some: { ...chatModel, ...fields } });
    expect(models).toMatchObject([{ rub_input_per_1m: 1000, notes: [] }]);
  });

  test("names at most ten fields", async () => {
    const fields = Object.fromEntries(Array.from({ length: 12 }, (_, at) => [`cost_${at}`, "1"]));
    const { models } = await importAll(cli, { some: { ...chatModel, ...fields } });
    expect(models[0]?.notes[0]).toEndWith("cost_8, cost_9 and 2 more.");
  });
});
