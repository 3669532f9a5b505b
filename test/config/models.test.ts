import { describe, expect, test } from "bun:test";
import type { ModelConfig } from "../../src/config/schema.ts";
import { freePrice, onePrice } from "../support/store/recordedRequest.ts";
import { byProblem, configOf, key, loadText } from "./loadText.ts";

const provider = '[[providers]]\nid = "one"\nbase_url = "http://localhost/v1"\n';
const prices = { rub_input_per_1m: "10", rub_output_per_1m: "20" };

/** One model: these keys (undefined leaves one out) over sound ones, and these lines in its only route. */
function model(
  keys: Readonly<Record<string, string | undefined>>,
  route = 'provider = "one"',
): string {
  const all = {
    id: '"small"',
    max_output_tokens: "100",
    context_tokens: "1000",
    ...prices,
    ...keys,
  };
  const lines = Object.entries(all).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name} = ${value}`],
  );
  return `[[models]]\n${lines.join("\n")}\n[[models.routes]]\n${route}\n`;
}

const embedding = `[[models]]
id = "vectors"
kind = "embedding"
rub_input_per_1m = 1
[[models.routes]]
provider = "one"
`;

function modelOf(
  keys: Readonly<Record<string, string | undefined>>,
  route?: string,
): ModelConfig | undefined {
  return configOf(provider + model(keys, route)).models[0];
}

function problemsOf(
  keys: Readonly<Record<string, string | undefined>>,
  route?: string,
): readonly string[] {
  return loadText(provider + model(keys, route)).problems;
}

describe("fallbacks", () => {
  const others = `${model({ id: '"spare"', aliases: '["other"]' })}${embedding}`;
  test("are names of other chat models", () => {
    const text = provider + model({ fallbacks: '["spare"]' }) + others;
    expect(configOf(text).models.map(({ fallbacks }) => fallbacks)).toEqual([["spare"], [], []]);
  });

  test.each([
    ['["small"]', "names the model itself: remove it"],
    ['["spare", "spare"]', 'names "spare" twice: remove one'],
    ['["spar"]', 'no model has the id "spar"; did you mean "spare"?'],
    ['["other"]', 'no model has the id "other"; did you mean "spare"?'],
    ['["vectors"]', '"vectors" is an embedding model, which cannot answer a chat'],
  ])("%s are refused", (fallbacks, problem) => {
    expect(loadText(provider + model({ fallbacks }) + others).problems).toEqual([
      `models[0].fallbacks: ${problem}`,
    ]);
  });
});

describe("id", () => {
  test.each([
    "a",
    "gpt-5-mini",
    "openai/gpt-4o",
    "llama3.2:1b",
    "hf.co/x/y:Q4_K_M",
    "модель",
    "m".repeat(256),
  ])("%s is accepted", (id) => expect(modelOf({ id: `"${id}"` })?.id).toBe(id));
  test.each(["a b", " a", "a,b", "gpt-*", "*"])("%j is refused", (id) => {
    expect(problemsOf({ id: `"${id}"` })).toEqual([
      "models[0].id: must not contain blanks, commas or *",
    ]);
  });
  test.each(["", "a\\nb", "a\\u0000", "a\\u202eb", "a\\u200bb", "m".repeat(257)])(
    "%j is refused",
    (id) => {
      expect(problemsOf({ id: `"${id}"` })).toEqual([
        "models[0].id: must have 1 to 256 visible characters",
      ]);
    },
  );
  test("is required and stands once", () => {
    expect(loadText(provider + model({}) + model({ id: undefined }) + model({})).problems).toEqual([
      "models[1].id: is required: the model name that clients send, in quotes",
      'models[2].id: "small" is already the id of models[0]',
    ]);
  });
});

test("owned_by is the first route's provider unless it is given", () => {
  expect(modelOf({})?.ownedBy).toBe("one");
  expect(modelOf({ owned_by: '"Meta AI"' })?.ownedBy).toBe("Meta AI");
  expect(problemsOf({ owned_by: '""' })).toEqual([
    "models[0].owned_by: must have 1 to 256 visible characters",
  ]);
});

describe("a price that is most likely in a wrong unit is warned of", () => {
  const costs = 'provider = "one"\nrub_cost_input_per_1m = 10\nrub_cost_output_per_1m = 20';
  const warningsOf = (keys: Readonly<Record<string, string>>, route?: string) =>
    loadText(provider + model(keys, route)).warnings;
  const unit = "prices are thousandths of a rouble per 1,000,000 tokens";

  test("where it is below what a route costs", () => {
    const below = { rub_input_per_1m: "9", rub_output_per_1m: "19" };
    expect(warningsOf(below, `provider = "one"\n[[models.routes]]\n${costs}`)).toEqual([
      "models[0].routes[1]: is the same route as routes[0]",
      `models[0].rub_input_per_1m: is below the cost of routes[1], 9 for 10: ${unit}`,
      `models[0].rub_output_per_1m: is below the cost of routes[1], 19 for 20: ${unit}`,
    ]);
  });

  test("where the price of a cache or of searches is below it, if the model sells them", () => {
    const extras =
      "rub_cost_cached_input_per_1m = 3\nrub_cost_cache_write_per_1m = 12\nrub_cost_cache_write_1h_per_1m = 20\nrub_cost_web_search_per_1k = 900";
    const below = {
      rub_input_per_1m: "10",
      rub_cached_input_per_1m: "2",
      rub_cache_write_1h_per_1m: "19",
      rub_web_search_per_1k: "899",
    };
    expect(warningsOf(below, `${costs}\n${extras}`)).toEqual([
      `models[0].rub_cached_input_per_1m: is below the cost of routes[0], 2 for 3: ${unit}`,
      `models[0].rub_cache_write_per_1m: is below the cost of routes[0], 10 for 12: ${unit}`,
      `models[0].rub_cache_write_1h_per_1m: is below the cost of routes[0], 19 for 20: ${unit}`,
      "models[0].rub_web_search_per_1k: is below the cost of routes[0], 899 for 900: prices are thousandths of a rouble per 1,000 searches",
    ]);
    const cacheWrite = { rub_cache_write_per_1m: "12" };
    expect(warningsOf(cacheWrite, `${costs}\n${extras}`)).toEqual([]);
  });

  test("where cached input costs more than input", () => {
    expect(warningsOf({ rub_cached_input_per_1m: "11" })).toEqual([
      `models[0].rub_cached_input_per_1m: is higher than the input price, 11 to 10: ${unit}`,
    ]);
  });

  test("and no other: at the cost, or free by intent", () => {
    expect(warningsOf({ rub_cached_input_per_1m: "10" }, costs)).toEqual([]);
    const free = { free: "true", rub_input_per_1m: "0", rub_output_per_1m: "0" };
    expect(warningsOf(free, costs)).toEqual([]);
  });
});

describe("prices", () => {
  const unit =
    "a whole number of thousandths of a rouble per 1,000,000 tokens (25 roubles are 25000)";
  const searchUnit =
    "a whole number of thousandths of a rouble per 1,000 searches (900 roubles are 900000)";

  test("are nano-roubles for one token and for one search; those of the cache have defaults", () => {
    const media = { audioInput: 10n, cachedAudioInput: 10n, imageInput: 10n };
    const all = {
      ...freePrice,
      ...media,
      input: 10n,
      output: 20n,
      audioOutput: 20n,
      imageOutput: 20n,
      cachedInput: 10n,
    };
    expect(modelOf({})?.schedule[0].prices.standard[0].price).toEqual({
      ...all,
      cacheWrite: 10n,
      cacheWrite1h: 10n,
    });
    const cache = { rub_cached_input_per_1m: "1", rub_cache_write_per_1m: "1000000000" };
    expect(modelOf(cache)?.schedule[0].prices.standard[0].price).toEqual({
      ...all,
      cachedInput: 1n,
      cacheWrite: 1_000_000_000n,
      cacheWrite1h: 1_000_000_000n,
    });
    const extras = { rub_cache_write_1h_per_1m: "30", rub_web_search_per_1k: "900000" };
    expect(modelOf(extras)?.schedule[0].prices.standard[0].price).toEqual({
      ...all,
      cacheWrite: 10n,
      cacheWrite1h: 30n,
      webSearch: 900_000_000n,
      webSearchPreview: 900_000_000n,
    });
  });

  const nothing = { free: "true", rub_input_per_1m: undefined, rub_output_per_1m: undefined };
  test.each([
    ["without their prices nothing is sold", {}, false, false],
    ["an hour in the cache has a price", { rub_cache_write_1h_per_1m: "30" }, true, false],
    ["searches have a price", { rub_web_search_per_1k: "1" }, false, true],
    ["a model that costs nothing sells both", nothing, true, true],
    ["only cached input is free", { free: "true", rub_cached_input_per_1m: "0" }, false, false],
    ["only searches are free", { free: "true", rub_web_search_per_1k: "0" }, false, true],
  ])("%s", (_, settings, cacheWrite1hTokens, webSearches) => {
    expect(problemsOf(settings)).toEqual([]);
    expect(modelOf(settings)?.schedule[0].prices.sells).toMatchObject({
      cacheWrite1hTokens,
      webSearches,
    });
  });

  describe.each([
    "rub_input_per_1m",
    "rub_output_per_1m",
    "rub_cached_input_per_1m",
    "rub_cache_write_per_1m",
    "rub_cache_write_1h_per_1m",
    "rub_web_search_per_1k",
  ])("%s", (name) => {
    test.each(["1", "1000000000"])("%s is accepted", (value) => {
      expect(problemsOf({ [name]: value })).toEqual([]);
    });
    test.each([
      "-1",
      "1000000001",
      "9223372036854775808",
      "25.0",
      "2.5e4",
      "nan",
      '"25000"',
      "true",
    ])("%s is refused", (value) => {
      expect(problemsOf({ [name]: value })).toEqual([
        `models[0].${name}: must be ${name.endsWith("_1k") ? searchUnit : unit} from 0 to 1000000000`,
      ]);
    });
    test("0 needs free = true", () => {
      const problem = "is 0: add free = true if the model costs nothing";
      expect(problemsOf({ [name]: "0" })).toEqual([`models[0].${name}: ${problem}`]);
      expect(problemsOf({ [name]: "0", free: "false" })).toEqual([`models[0].${name}: ${problem}`]);
      expect(problemsOf({ [name]: "0", free: "true" })).toEqual([]);
    });
  });

  test("of input and output are required, but not of a free model", () => {
    const none = { rub_input_per_1m: undefined, rub_output_per_1m: undefined };
    expect(problemsOf(none)).toEqual([
      `models[0].rub_input_per_1m: is required: ${unit}, or write free = true`,
      `models[0].rub_output_per_1m: is required: ${unit}, or write free = true`,
    ]);
    expect(modelOf({ ...none, free: "true" })?.schedule[0].prices.standard[0].price).toEqual(
      freePrice,
    );
  });

  test("and free = true must not contradict each other", () => {
    expect(problemsOf({ free: "true" })).toEqual([
      "models[0].free: is true, but no price is 0: remove it, or set a price to 0",
    ]);
    expect(problemsOf({ free: '"yes"' })).toEqual([
      "models[0].free: must be true or false, without quotes",
    ]);
  });
});

test("max_output_tokens is required", () => {
  expect(problemsOf({ max_output_tokens: undefined })).toEqual([
    "models[0].max_output_tokens: is required: the true maximum of the provider, a whole number from 1 to 100000000",
  ]);
});

describe("an embedding model", () => {
  const embedding = {
    kind: '"embedding"',
    max_output_tokens: undefined,
    rub_output_per_1m: undefined,
  };
  const removed = "is not a key of an embedding model: remove it";

  test("has a price of the input only, and may have a context and a free price", () => {
    expect(modelOf({ ...embedding, context_tokens: "8192" })).toMatchObject({
      kind: "embedding",
      schedule: [
        {
          prices: {
            standard: [{ price: { input: 10n, output: 0n, cachedInput: 10n, cacheWrite: 10n } }],
          },
        },
      ],
      maxOutputTokens: 0,
      contextTokens: 8192,
    });
    const free = { ...embedding, free: "true", rub_input_per_1m: undefined };
    expect(modelOf(free)?.schedule[0].prices.standard[0].price.input).toBe(0n);
    expect(problemsOf({ ...embedding, free: "true" })).toEqual([
      "models[0].free: is true, but no price is 0: remove it, or set a price to 0",
    ]);
  });

  test("needs the price of the input", () => {
    expect(problemsOf({ ...embedding, rub_input_per_1m: undefined })).toEqual([
      expect.stringMatching(/^models\[0\]\.rub_input_per_1m: is required: /),
    ]);
  });

  test.each([
    ["max_output_tokens", "100"],
    ["rub_output_per_1m", "1"],
    ["rub_cached_input_per_1m", "1"],
    ["rub_cache_write_per_1m", "1"],
  ])("has no %s", (name, value) => {
    expect(problemsOf({ ...embedding, [name]: value })).toEqual([`models[0].${name}: ${removed}`]);
  });

  test.each([
    ["api", '"chat"'],
    ["responses", "true"],
    ["rub_cost_output_per_1m", "1"],
    ["rub_cost_cache_write_per_1m", "1"],
  ])("has no %s in its routes", (name, value) => {
    expect(problemsOf(embedding, `provider = "one"\n${name} = ${value}`)).toEqual([
      `models[0].routes[0].${name}: ${removed}`,
    ]);
  });

  test("has routes with the cost of the input only", () => {
    const lines = 'provider = "one"\nrub_cost_input_per_1m = 7';
    expect(modelOf(embedding, lines)?.routes).toMatchObject([
      { costs: { standard: [{ price: { input: 7n, output: 0n } }] } },
    ]);
  });

  test.each([
    ["openai", []],
    ["gemini", []],
    [
      "anthropic",
      [
        "models[0].routes[0].provider: must have the kind openai or gemini: the kind anthropic has no embeddings",
      ],
    ],
  ])("on a provider of kind %s", (kind, problems) => {
    const other = provider.replace('id = "one"', `id = "one"\nkind = "${kind}"\n${key}`);
    expect(loadText(other + model(embedding)).problems).toEqual(problems);
  });

  test("has another name for no kind", () => {
    expect(problemsOf({ kind: '"embeddings"' })).toEqual([
      'models[0].kind: must be one of: "chat", "embedding"',
    ]);
  });
});

describe("routes", () => {
  const route = 'provider = "one"\n';

  test("have every key", () => {
    const lines = `${route}model = "Small v2"\napi = "chat"\nresponses = true\npriority = 0\nweight = 3\ntokens_per_second = 80\nrub_cost_input_per_1m = 0\nrub_cost_output_per_1m = 7`;
    expect(modelOf({}, lines)?.routes).toEqual([
      {
        provider: "one",
        model: "Small v2",
        api: "chat",
        responses: true,
        priority: 0,
        weight: 3,
        tokensPerSecond: 80,
        costs: onePrice({ ...freePrice, output: 7n, audioOutput: 7n, imageOutput: 7n }),
      },
    ]);
  });

  test.each<readonly [lines: string, costs: object]>([
    [
      "rub_cost_cached_input_per_1m = 1\nrub_cost_cache_write_per_1m = 12",
      { cachedInput: 1n, cacheWrite: 12n, cacheWrite1h: 12n, webSearch: 0n },
    ],
    [
      "rub_cost_cache_write_1h_per_1m = 20\nrub_cost_web_search_per_1k = 900",
      { cachedInput: 10n, cacheWrite: 10n, cacheWrite1h: 20n, webSearch: 900_000n },
    ],
  ])("have costs of the caches and of searches: %j", (lines, costs) => {
    const both = "rub_cost_input_per_1m = 10\nrub_cost_output_per_1m = 20\n";
    expect(modelOf({}, `${route}${both}${lines}`)?.routes).toMatchObject([
      { costs: { standard: [{ price: { input: 10n, output: 20n, ...costs } }] } },
    ]);
  });

  test.each(["chat", "responses"])("serve chat over the interface %s", (api) => {
    expect(modelOf({}, `${route}api = "${api}"`)?.routes).toMatchObject([
      { api, responses: false },
    ]);
  });

  const money =
    "must be a whole number of thousandths of a rouble per 1,000,000 tokens (25 roubles are 25000) from 0 to 1000000000";
  const refuse = (lines: string, problem: string) =>
    expect(problemsOf({}, lines)).toEqual([`models[0].routes[0].${problem}`]);

  test.each(
    byProblem({
      "provider: is required: the id of a provider, in quotes": 'model = "x"',
      'provider: no provider has the id "two"; add one under [[providers]]': 'provider = "two"',
      'provider: no provider has the id "oen"; did you mean "one"?': 'provider = "oen"',
      'provider: no provider has the id ""; add one under [[providers]]': 'provider = ""',
      "provider: no provider has the id (from the environment); add one under [[providers]]":
        'provider = "${ONE_KEY}"',
    }),
  )("%j is refused", refuse);

  test.each(
    byProblem({
      "model: must have 1 to 256 visible characters": ['model = ""', 'model = "a\\tb"'],
      'api: must be one of: "chat", "responses"': 'api = "completions"',
      "responses: must be true or false, without quotes": 'responses = "yes"',
      "priority: must be a whole number from 0 to 1000000": ["priority = -1", "priority = 1000001"],
      "weight: must be a whole number from 1 to 1000000": [
        "weight = 0",
        "weight = 1000001",
        "weight = 0.5",
      ],
      "rub_cost_output_per_1m: is required with rub_cost_input_per_1m": [
        "rub_cost_input_per_1m = 1",
        "rub_cost_input_per_1m = 1\nrub_cost_web_search_per_1k = 1",
      ],
      "rub_cost_input_per_1m: is required with rub_cost_output_per_1m":
        "rub_cost_output_per_1m = 1",
      [`rub_cost_input_per_1m: ${money}`]:
        "rub_cost_input_per_1m = 1000000001\nrub_cost_output_per_1m = 1",
      "wieght: unknown key; did you mean weight?": "wieght = 1",
    }),
  )("beside its provider %j is refused", (lines, problem) => refuse(route + lines, problem));

  test.each(["anthropic", "gemini"])("a provider of kind %s has no responses interface", (kind) => {
    const other = provider.replace('id = "one"', `id = "two"\nkind = "${kind}"`);
    const lines = 'provider = "two"\napi = "responses"\nresponses = true';
    const { problems } = loadText(other + model({}, lines));
    expect(problems).toContain(
      `models[0].routes[0].responses: requires a provider of kind openai, and the kind of this one is ${kind}`,
    );
    expect(problems).toContainEqual(expect.stringMatching(/^models\[0\]\.routes\[0\]\.api: /));
  });

  test.each(
    byProblem({
      "models[0].routes: is required: at least one route: write [[models.routes]]": "",
      "models[0].routes: must be at least one route: write [[models.routes]]": [
        "routes = []",
        "routes = 1",
      ],
      "models[0].routes: must have at most 100 items": `routes = [${'{provider="one"},'.repeat(101)}]`,
    }),
  )("a model with %.20j is refused", (line, problem) => {
    const text = `${provider}[[models]]\nid = "a"\nfree = true\nmax_output_tokens = 1\n${line}`;
    expect(loadText(text).problems).toEqual([problem]);
  });

  test("are not led to an id that is itself refused", () => {
    const refused = provider.replace("one", "my one");
    expect(loadText(refused + model({}, 'provider = "my_one"')).problems).toEqual([
      'models[0].routes[0].provider: no provider has the id "my_one"; add one under [[providers]]',
      "providers[0].id: must be 1 to 64 letters, digits, dots, underscores or hyphens",
    ]);
  });

  test("two that lead to the same place are warned of", () => {
    const again = '\n[[models.routes]]\nprovider = "one"\nmodel = ';
    const lines = `${route}${again}"other"${again}"small"`;
    expect(loadText(provider + model({}, lines)).warnings).toEqual([
      "models[0].routes[2]: is the same route as routes[0]",
    ]);
  });
});
