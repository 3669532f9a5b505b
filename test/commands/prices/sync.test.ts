import { afterEach, describe, expect, test } from "bun:test";
import { chmod, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  gpt,
  listWith,
  model,
  openSyncFolder,
  pricing,
  secondFile,
  sonnet,
  type SyncDocument,
  type SyncFolder,
  type SyncedRow,
} from "./priceSync.ts";

const opened: SyncFolder[] = [];
async function open(...args: Parameters<typeof openSyncFolder>): Promise<SyncFolder> {
  const folder = await openSyncFolder(...args);
  opened.push(folder);
  return folder;
}
afterEach(async () => {
  for (const folder of opened.splice(0)) await folder.remove();
});

/** The same folder with the prices of the list. */
async function synced(models: string): Promise<SyncFolder> {
  const folder = await open(models);
  expect(await folder.document(await listWith())).toMatchObject({ written: true, status: 0 });
  return folder;
}

const rowOf = ({ models }: SyncDocument, id: string): SyncedRow | undefined =>
  models.find((row) => row.id === id);

const GPT = `[[prices]]
model = "gpt-5.4"
usd_input_per_1m = 2.5
usd_output_per_1m = 15
usd_cached_input_per_1m = 0.25
tiers = [
  { above_prompt_tokens = 272000, usd_input_per_1m = 5, usd_output_per_1m = 22.5, usd_cached_input_per_1m = 0.5 },
]
service_tiers.flex = { usd_input_per_1m = 1.25, usd_output_per_1m = 7.5, usd_cached_input_per_1m = 0.13 }
service_tiers.priority = { usd_input_per_1m = 5, usd_output_per_1m = 30, usd_cached_input_per_1m = 0.5 }
service_tiers.batch = { usd_input_per_1m = 1.25, usd_output_per_1m = 7.5 }
`;
const SONNET = `[[prices]]
model = "sonnet"
usd_input_per_1m = 3
usd_output_per_1m = 15
usd_cached_input_per_1m = 0.3
usd_cache_write_per_1m = 3.75
usd_cache_write_1h_per_1m = 6
usd_web_search_per_1k = 10
tiers = [
  { above_prompt_tokens = 200000, usd_input_per_1m = 6, usd_output_per_1m = 22.5, usd_cached_input_per_1m = 0.6, usd_cache_write_per_1m = 7.5, usd_cache_write_1h_per_1m = 12 },
]
`;

describe("the first run", () => {
  test("writes the vendors' prices of all tiers, and the config loads with them", async () => {
    const folder = await open(gpt + sonnet);
    const { status, stdout, stderr } = await folder.sync(await listWith(), "--yes");
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: expect.stringContaining(`wrote ${join(folder.folder, "prices.toml")}`),
    });
    expect(stdout).toContain("2 change");
    expect(await folder.prices()).toBe(`${GPT}\n${SONNET}`);
    const text = await readFile(join(folder.folder, "prices.toml"), "utf8");
    expect(text).toMatch(/^# Written by `tollgate prices sync` on 20\S+Z from "list\.json"\.\n/);
    expect(await folder.json("check")).toMatchObject({ ok: true, problems: [] });
    expect(await folder.json("models")).toMatchObject([
      { rub_input_per_1m: 300_000, tiers: [{ from_prompt_tokens: 272_001 }] },
      { rub_cache_write_1h_per_1m: 720_000, rub_web_search_per_1k: 1_200_000 },
    ]);
  });

  test("shows each price of a new model, with the margin", async () => {
    const folder = await open(gpt);
    const row = rowOf(await folder.document(await listWith()), "gpt-5.4");
    expect(row).toMatchObject({ change: "new", margin_before: null, margin_after: 16.6 });
    expect(row?.changes).toContainEqual({
      price: "usd_input_per_1m",
      service_tier: null,
      from_prompt_tokens: 272_001,
      before: null,
      after: "5",
      percent: null,
    });
    expect(row?.changes).toContainEqual({
      price: "usd_cached_input_per_1m",
      service_tier: "flex",
      from_prompt_tokens: 0,
      before: null,
      after: "0.13",
      percent: null,
    });
  });

  test("asks where there is a terminal only, and writes nothing without --yes", async () => {
    const folder = await open(gpt);
    const { status, stdout, stderr } = await folder.sync(await listWith());
    expect(status).toBe(1);
    expect(stdout).toContain("usd_input_per_1m");
    expect(stderr).toContain("nothing was written: there is no terminal to ask; --yes writes");
    expect(await folder.prices()).toBeUndefined();
    const json = await folder.sync(await listWith(), "--json");
    expect(json.status).toBe(1);
    expect(JSON.parse(json.stdout)).toMatchObject({ written: false, models: [{ change: "new" }] });
  });

  test("says which line to add where the config names no file", async () => {
    const folder = await open(gpt, "");
    const { status, stderr } = await folder.sync(await listWith(), "--yes");
    expect({ status, stderr }).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('add [pricing] with file = "prices.toml" to '),
    });
    const named = await folder.sync(await listWith(), "--yes", "--output", "prices.toml");
    expect(named.status).toBe(0);
    expect(named.stderr).toContain("to use it: [pricing] file = ");
    expect(await folder.prices()).toBe(GPT);
  });
});

test("nothing changes where the prices are the same, also in the file", async () => {
  const folder = await synced(gpt + sonnet);
  const file = join(folder.folder, "prices.toml");
  const before = await readFile(file, "utf8");
  expect(await folder.document(await listWith())).toMatchObject({
    written: false,
    unchanged: 2,
    models: [],
  });
  const { status, stderr } = await folder.sync(await listWith());
  expect({ status, stderr }).toMatchObject({ status: 0 });
  expect(await readFile(file, "utf8")).toBe(before);
});

describe("what changes in the list", () => {
  test.each<
    readonly [what: string, fields: Readonly<Record<string, unknown>>, change: string, rows: object]
  >([
    [
      "a higher price of long prompts",
      { output_cost_per_token_above_272k_tokens: 2.5e-5 },
      "higher",
      [
        {
          price: "usd_output_per_1m",
          service_tier: null,
          from_prompt_tokens: 272_001,
          before: "22.5",
          after: "25",
          percent: 11.1,
        },
        // Flex and batch have no price of long prompts: it is the standard one.
        ...["flex", "batch"].map((service) => ({ service_tier: service, before: "22.5" })),
      ],
    ],
    [
      "a lower price of one service tier",
      { output_cost_per_token_priority: 2.9e-5 },
      "lower",
      [{ service_tier: "priority", before: "30", after: "29", percent: -3.3 }],
    ],
    [
      "one up and one down",
      { input_cost_per_token_flex: 1.3e-6, output_cost_per_token_flex: 7.4e-6 },
      "changed",
      [{ percent: 4 }, { percent: -1.3 }],
    ],
    [
      "a service tier that ends",
      { input_cost_per_token_batches: null, output_cost_per_token_batches: null },
      "changed",
      [
        { price: "usd_input_per_1m", service_tier: "batch", before: "1.25", after: null },
        { price: "usd_output_per_1m", service_tier: "batch", before: "7.5", after: null },
      ],
    ],
    [
      "web searches that get a price",
      { search_context_cost_per_query: { low: 0.01, high: 0.025 } },
      "changed",
      [{ price: "usd_web_search_per_1k", before: null, after: "25", percent: null }],
    ],
  ])("%s", async (_, fields, change, rows) => {
    const folder = await synced(gpt);
    const found = await folder.document(await listWith({ "gpt-5.4": fields }));
    expect(found).toMatchObject({
      written: true,
      models: [{ id: "gpt-5.4", change, changes: rows }],
    });
    expect(await folder.document(await listWith({ "gpt-5.4": fields }))).toMatchObject({
      written: false,
    });
  });

  test("a model that leaves the list keeps its prices", async () => {
    const folder = await synced(gpt + sonnet);
    const found = await folder.document(await listWith({ "gpt-5.4": null }));
    expect(found).toMatchObject({
      written: false,
      unchanged: 1,
      models: [{ id: "gpt-5.4", change: "gone", reason: "the list has no gpt-5.4 of openai" }],
    });
    expect(await folder.prices()).toBe(`${GPT}\n${SONNET}`);
  });

  test("a model that leaves the config leaves the file", async () => {
    const folder = await synced(gpt + sonnet);
    const config = await readFile(folder.config, "utf8");
    await writeFile(folder.config, config.replace(gpt, ""));
    expect((await folder.run("check")).stderr).toContain('no model has the id "gpt-5.4"');
    const found = await folder.document(await listWith());
    expect(found).toMatchObject({ written: true, models: [{ id: "gpt-5.4", change: "removed" }] });
    expect(await folder.prices()).toBe(SONNET);
  });
});

describe("a model is refused, and the others are written,", () => {
  const higher = { input_cost_per_token: 3.8e-6 };
  const lower = { output_cost_per_token: 7e-6 };

  test.each<
    readonly [
      what: string,
      fields: Readonly<Record<string, unknown>>,
      args: readonly string[],
      isRefused: boolean,
    ]
  >([
    ["+52 %", higher, [], true],
    ["+52 % that is allowed", higher, ["--allow", "gpt-*"], false],
    ["+52 % that another one may", higher, ["--allow", "sonnet"], true],
    ["+52 % with a higher limit", higher, ["--max-change", "52"], false],
    ["+52 % just above the limit", higher, ["--max-change", "51.999999"], true],
    ["a price that no config can have", { input_cost_per_token: 1 }, [], true],
    ["-53 %", lower, [], true],
    ["+50 %", { input_cost_per_token: 3.75e-6 }, [], false],
    [
      "a cached price that ends, and is that of input",
      { cache_read_input_token_cost: null },
      [],
      true,
    ],
  ])("where a price jumps: %s", async (_, fields, args, isRefused) => {
    const folder = await synced(gpt + sonnet);
    const list = await listWith({
      "gpt-5.4": fields,
      "claude-sonnet-4-5": { output_cost_per_token: 1.6e-5 },
    });
    const found = await folder.document(list, ...args);
    expect({ status: found.status, written: found.written }).toEqual({
      status: isRefused ? 3 : 0,
      written: true,
    });
    expect(rowOf(found, "gpt-5.4")?.refused).toBe(isRefused);
    const text = await folder.prices();
    expect(text?.includes(GPT)).toBe(isRefused);
    expect(text).toContain("usd_output_per_1m = 16\n");
  });

  test.each<
    readonly [
      what: string,
      fields: Readonly<Record<string, unknown>>,
      args: readonly string[],
      differ: readonly object[],
    ]
  >([
    ["not", {}, [], []],
    [
      "in one price",
      { output_cost_per_token: 1.6e-5 },
      [],
      [{ price: "usd_output_per_1m", from_prompt_tokens: 0, first: "16", second: "15" }],
    ],
    [
      "in a tier",
      { input_cost_per_token_above_200k_tokens: null },
      [],
      [{ price: "usd_input_per_1m", from_prompt_tokens: 200_001, first: "3", second: "6" }],
    ],
    [
      "in a border",
      {
        input_cost_per_token_above_200k_tokens: null,
        input_cost_per_token_above_272k_tokens: 6e-6,
      },
      [],
      [{ price: "usd_input_per_1m", from_prompt_tokens: 200_001, first: "3", second: "6" }],
    ],
    [
      "in a price that only one has",
      { cache_read_input_token_cost: null, cache_read_input_token_cost_above_200k_tokens: null },
      [],
      [],
    ],
    ["within the noise of a double", { output_cost_per_token: 0.000015000000000000002 }, [], []],
  ])("where the lists disagree: %s", async (_, fields, args, differ) => {
    const folder = await open(sonnet);
    const list = await listWith({ "claude-sonnet-4-5": fields });
    const found = await folder.document(list, "--second", secondFile, ...args);
    const [row] = found.models;
    expect(row?.disagreements).toMatchObject(differ);
    expect(row?.disagreements.length).toBe(differ.length);
    expect({ status: found.status, refused: row?.refused }).toEqual(
      differ.length > 0 ? { status: 3, refused: true } : { status: 0, refused: false },
    );
    const allowed = await folder.document(list, "--second", secondFile, "--allow", "sonnet");
    expect(allowed.status).toBe(0);
  });

  test("where the price would be below the cost of a route", async () => {
    const cost = "rub_cost_input_per_1m = 310000\nrub_cost_output_per_1m = 1\n";
    const folder = await open(model("gpt-5.4", "openai", cost) + sonnet);
    const found = await folder.document(await listWith(), "--allow", "*");
    expect(found.status).toBe(3);
    expect(rowOf(found, "gpt-5.4")).toMatchObject({
      refused: true,
      reason: expect.stringContaining(
        "below the cost of the route to openai: rub_input_per_1m 300000 for 310000",
      ),
    });
    // A model without any price: the config would not load, and nothing is written.
    expect(found.written).toBe(true);
  });

  test("where another vendor of the model asks more", async () => {
    const routes = '\n[[models.routes]]\nprovider = "proxy"\nmodel = "gpt-5.6"\npriority = 2\n';
    const folder = await open(model("gpt-5.4", "openai", routes));
    const found = await folder.sync(await listWith(), "--yes", "--vendor", "proxy=openai");
    expect(found.stdout).toContain(
      "below the cost of the route to proxy: rub_input_per_1m 300000 for 500000",
    );
    expect(found.status).toBe(3);
  });
});

describe("a model that is not synced says why:", () => {
  test.each<readonly [what: string, models: string, change: string, reason: string]>([
    [
      "prices in the config",
      model("gpt-5.4", "openai", "", "usd_input_per_1m = 1\nusd_output_per_1m = 2"),
      "not synced",
      "its prices stand in the config itself: remove them there, and it is synced",
    ],
    [
      "prices in [[prices]] of the config",
      `${gpt}\n[[prices]]\nmodel = "gpt-5.4"\nusd_input_per_1m = 1\nusd_output_per_1m = 2\n`,
      "not synced",
      "its prices stand in the config itself: remove them there, and it is synced",
    ],
    [
      "a free model",
      model("gpt-5.4", "openai", "", "free = true"),
      "not synced",
      "its prices stand in the config itself: remove them there, and it is synced",
    ],
    [
      "an unknown vendor",
      model("gpt-5.4", "proxy"),
      "not found",
      "the vendor of proxy is not known: name it with --vendor proxy=NAME",
    ],
    ["an unknown model", model("gpt-9", "openai"), "not found", "the list has no gpt-9 of openai"],
    [
      "another mode",
      model("dall-e-3", "openai"),
      "not found",
      "dall-e-3 of the list: mode image_generation",
    ],
    [
      "another kind",
      model("text-embedding-3-small", "openai"),
      "not found",
      "text-embedding-3-small of the list is of the kind embedding",
    ],
  ])("%s", async (_, models, change, reason) => {
    const folder = await open(sonnet + models);
    const { models: rows } = await folder.document(await listWith());
    expect(rows[1]).toMatchObject({ change, reason, refused: false });
  });

  test("a vendor's name on the command line, and models that are left out", async () => {
    const folder = await open(
      model("gpt-5.4", "proxy") +
        model("deep", "proxy", 'model = "deepseek-chat"') +
        model("local", "proxy", 'model = "llama3.2"'),
    );
    const found = await folder.document(
      await listWith(),
      "--vendor",
      "proxy=deepseek",
      "--models",
      "deep,local",
    );
    expect(found.models).toMatchObject([{ id: "deep", change: "new" }, { id: "local" }]);
    expect(await folder.prices()).toBe(
      '[[prices]]\nmodel = "deep"\nusd_input_per_1m = 0.28\nusd_output_per_1m = 0.42\nusd_cached_input_per_1m = 0.028\n',
    );
    const free = await folder.document(await listWith(), "--vendor", "proxy=ollama");
    expect(rowOf(free, "local")?.reason).toBe(
      "ollama/llama3.2 of the list costs nothing: write free = true at the model",
    );
  });
});

test.each([
  ["gemini", "https://generativelanguage.googleapis.com/v1beta", "gemini"],
  ["openai", "https://my-team.openai.azure.com/openai/v1", "azure"],
  ["openai", "https://api.x.ai/v1", "xai"],
  ["openai", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope"],
])("the vendor of a provider of kind %s at %s is %s", async (kind, url, vendor) => {
  const provider = `[[providers]]\nid = "x"\nkind = "${kind}"\nbase_url = "${url}"\n`;
  const folder = await open(`${provider}${model("m-1", "x")}`);
  const entry = { litellm_provider: vendor, mode: "chat", input_cost_per_token: 1e-6 };
  const list = {
    "m-1": { ...entry, litellm_provider: "other", output_cost_per_token: 9e-6 },
    [`${vendor}/m-1`]: { ...entry, output_cost_per_token: 2e-6 },
  };
  const { models } = await folder.document(JSON.stringify(list));
  expect(models).toMatchObject([{ list_name: `${vendor}/m-1`, change: "new" }]);
  expect(await folder.prices()).toContain("usd_output_per_1m = 2\n");
});

test("warns of what the new prices make wrong, such as a plan below the cost", async () => {
  const plan = '\n[[plans]]\nid = "low"\n[[plans.rules]]\nmodels = "*"\npercent = 50\n';
  const folder = await open(gpt + plan);
  const { status, stderr } = await folder.sync(await listWith(), "--yes");
  expect(stderr).toContain("plans[0].rules[0]: gpt-5.4");
  expect(stderr).toContain("is below the cost of routes[0]");
  expect(stderr).not.toContain("context_tokens");
  expect(status).toBe(0);
});

test("an embedding model, audio and a multiplier of the list", async () => {
  const embedding =
    '\n[[models]]\nid = "text-embedding-3-small"\nkind = "embedding"\n[[models.routes]]\nprovider = "openai"\n';
  const audio = model("gpt-4o-audio-preview", "openai");
  const opus = model("claude-opus-4-6", "claude");
  const folder = await open(embedding + audio + opus);
  const found = await folder.document(await listWith());
  expect(found.status).toBe(0);
  expect(await folder.prices()).toStartWith(
    '[[prices]]\nmodel = "text-embedding-3-small"\nusd_input_per_1m = 0.02\n\n[[prices]]\nmodel = "gpt-4o-audio-preview"\nusd_input_per_1m = 2.5\nusd_output_per_1m = 10\nusd_audio_input_per_1m = 40\nusd_audio_output_per_1m = 80\n',
  );
  expect(rowOf(found, "claude-opus-4-6")?.notes).toEqual([
    "Not in these prices, because the config cannot express it: provider_specific_entry.",
  ]);
});

describe("--from", () => {
  const higher = { "gpt-5.4": { output_cost_per_token: 1.6e-5 } };

  test("adds prices that come into force later, and /v1/models would show them", async () => {
    const folder = await synced(gpt);
    const found = await folder.document(await listWith(higher), "--from", "2099-12-01");
    expect(found).toMatchObject({ written: true, models: [{ change: "higher" }] });
    const later = GPT.replace(/\n/, "\n")
      .replace('model = "gpt-5.4"\n', 'model = "gpt-5.4"\nfrom = 2099-12-01\n')
      .replace("usd_output_per_1m = 15\n", "usd_output_per_1m = 16\n");
    expect(await folder.prices()).toBe(`${GPT}\n${later}`);
    expect(await folder.json("models")).toMatchObject([
      { rub_output_per_1m: 1_800_000, next_prices: "2099-12-01T00:00:00.000Z" },
    ]);
    // The same again changes nothing; other prices for the day replace it; prices of today leave it.
    expect(await folder.document(await listWith(higher), "--from", "2099-12-01")).toMatchObject({
      written: false,
    });
    const again = { "gpt-5.4": { output_cost_per_token: 1.7e-5 } };
    await folder.document(await listWith(again), "--from", "2099-12-01");
    expect(await folder.prices()).toBe(`${GPT}\n${later.replace("= 16\n", "= 17\n")}`);
    await folder.document(await listWith({ "gpt-5.4": { output_cost_per_token: 1.4e-5 } }));
    const today = GPT.replace("usd_output_per_1m = 15\n", "usd_output_per_1m = 14\n");
    expect(await folder.prices()).toBe(`${today}\n${later.replace("= 16\n", "= 17\n")}`);
  });

  test("keeps what is in force, and drops what is over", async () => {
    const folder = await open(gpt + sonnet);
    const old = (from: string, output: number) =>
      `[[prices]]\nmodel = "gpt-5.4"\n${from}usd_input_per_1m = 2.5\nusd_output_per_1m = ${output}\n\n`;
    const text =
      old("", 11) +
      old("from = 2020-01-01\n", 12) +
      old("from = 2021-01-01\n", 13) +
      old("from = 2098-01-01\n", 14);
    await writeFile(join(folder.folder, "prices.toml"), text);
    expect((await folder.document(await listWith(), "--models", "sonnet")).written).toBe(true);
    expect(await folder.prices()).toBe(old("", 13) + old("from = 2098-01-01\n", 14) + SONNET);
  });

  test.each([
    ["2020-01-01", "It has passed"],
    ["tomorrow", "Write a date such as 2026-12-01"],
    ["2099-12-01T00:00:00", "Write a date such as 2026-12-01"],
  ])("refuses %s", async (from, message) => {
    const folder = await open(gpt);
    const { status, stderr } = await folder.sync(await listWith(), "--from", from);
    expect({ status, stderr }).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(message),
    });
  });

  test("refuses a model without prices until then", async () => {
    const folder = await synced(gpt);
    await writeFile(folder.config, (await readFile(folder.config, "utf8")) + sonnet);
    const found = await folder.document(await listWith(higher), "--from", "2099-12-01");
    expect(found.status).toBe(3);
    expect(rowOf(found, "sonnet")?.reason).toContain("sync it without --from first");
  });
});

describe("the old file stays", () => {
  test.each<readonly [what: string, list: string, message: string]>([
    ["a web page instead of a list", "<!DOCTYPE html>", "is not valid JSON"],
    ["a list of another form", "[]", "is not a price list"],
    [
      "a price that is no number",
      '{"gpt-5.4": {"litellm_provider": "openai", "mode": "chat", "input_cost_per_token": "free", "output_cost_per_token": 1}}',
      "",
    ],
  ])("with %s", async (_, list, message) => {
    const folder = await synced(gpt);
    const { status, stdout, stderr } = await folder.sync(list, "--yes");
    if (message === "") expect(stdout).toContain("unusable value of input_cost_per_token");
    else
      expect({ status, stderr }).toMatchObject({
        status: 1,
        stderr: expect.stringContaining(message),
      });
    expect(await folder.prices()).toBe(GPT);
  });

  test("where the config does not load with the new one", async () => {
    const folder = await open(
      gpt,
      pricing.replace("margin_percent = 20", "margin_percent = 10000"),
    );
    const list = await listWith({ "gpt-5.4": { output_cost_per_token: 0.999 } });
    const { status, stderr } = await folder.sync(list, "--yes");
    expect({ status, stderr }).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("the most is 1000000000"),
    });
    expect(await folder.prices()).toBeUndefined();
  });

  test("where its folder cannot be written, and no other file is left", async () => {
    const folder = await synced(gpt);
    const list = await listWith({ "gpt-5.4": { output_cost_per_token: 1.6e-5 } });
    const before = await readdir(folder.folder);
    const output = join(folder.folder, "missing", "prices.toml");
    const { status, stderr } = await folder.sync(list, "--yes", "--output", output);
    expect({ status, stderr }).toMatchObject({
      status: 1,
      stderr: expect.stringContaining("no such file"),
    });
    expect(await readdir(folder.folder)).toEqual(before);
    expect(await folder.prices()).toBe(GPT);
  });

  test("where it is not what the command writes", async () => {
    const folder = await open(gpt);
    const file = join(folder.folder, "prices.toml");
    for (const [text, message] of [
      [
        '[[prices]]\nmodel = "gpt-5.4"\nrub_input_per_1m = 1\nrub_output_per_1m = 1\n',
        "in roubles",
      ],
      ["[[prices]\n", "line 1"],
      ["[server]\n", "only [[prices]]"],
    ] as const) {
      await writeFile(file, text);
      const { status, stderr } = await folder.sync(await listWith(), "--yes");
      expect({ status, stderr }).toMatchObject({
        status: 1,
        stderr: expect.stringContaining(message),
      });
      expect(await readFile(file, "utf8")).toBe(text);
    }
  });

  test("with its mode, and its margins", async () => {
    const folder = await open(gpt);
    const file = join(folder.folder, "prices.toml");
    await writeFile(file, GPT.replace("usd_input", "margin_percent = 5\nusd_input"));
    await chmod(file, 0o600);
    await folder.document(await listWith({ "gpt-5.4": { output_cost_per_token: 1.6e-5 } }));
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(await folder.prices()).toContain(
      "margin_percent = 5\nusd_input_per_1m = 2.5\nusd_output_per_1m = 16\n",
    );
  });
});
