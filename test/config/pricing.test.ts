import { describe, expect, test } from "bun:test";
import { byPrice, type PriceName } from "../../src/contract/figures.ts";
import type { PriceTiers, SoldPrices } from "../../src/contract/priceList.ts";
import { configOf, loadText } from "./loadText.ts";

const provider = `[[providers]]\nid = "one"\nbase_url = "http://127.0.0.1:1/v1"\n`;

/** A config with one model. `head` comes before it, `tail` after its route. */
function text({ head = "", model = "", provides = "", route = "", tail = "" }): string {
  return `${head}\n${provider}${provides}\n[[models]]\nid = "gpt-5"\nmax_output_tokens = 10\ncontext_tokens = 1000000\n${model}\n[[models.routes]]\nprovider = "one"\n${route}\n${tail}`;
}

type Given = Parameters<typeof text>[0];

function soldOf(given: Given, files?: Readonly<Record<string, string>>): SoldPrices {
  const [model] = configOf(text(given), files && { files }).models;
  if (model === undefined) throw new Error("there is no model");
  return model.schedule[0].prices;
}

/** The prices of each tier, in nano-roubles of a token. */
function shown(tiers: PriceTiers | undefined, names: readonly PriceName[]): readonly unknown[] {
  return (tiers ?? []).map(({ fromPromptTokens, price }) =>
    [fromPromptTokens as unknown].concat(names.map((name) => price[name])),
  );
}

const problemsOf = (given: Given, files: Readonly<Record<string, string>> = {}) =>
  loadText(text(given), { files }).problems;
const warningsOf = (given: Given) => loadText(text(given)).warnings;

const rate = "[currency]\nusd = 92.4517";
const dollars = "usd_input_per_1m = 1.25\nusd_output_per_1m = 10";
const roubles = "rub_input_per_1m = 100\nrub_output_per_1m = 200";

describe("prices in dollars", () => {
  // 1.25 * 92.4517 is 115.564625 roubles, and 10 * 92.4517 is 924.517.
  test.each<[string, Given, bigint, bigint]>([
    ["are rounded up to a thousandth once", { head: rate, model: dollars }, 115_565n, 924_517n],
    [
      "have the margin of [pricing]",
      { head: `${rate}\n[pricing]\nmargin_percent = 20`, model: dollars },
      138_678n,
      1_109_421n,
    ],
    [
      "have the margin of the provider before that",
      {
        head: `${rate}\n[pricing]\nmargin_percent = 20`,
        provides: "margin_percent = 0\n",
        model: dollars,
      },
      115_565n,
      924_517n,
    ],
    [
      "have the margin of the first rule that fits before that",
      {
        head: `${rate}\n[[price_rules]]\nmodels = "claude-*"\nmargin_percent = 1\n[[price_rules]]\nmodels = "gpt-*"\nmargin_percent = 12.5\n[[price_rules]]\nmodels = "*"\nmargin_percent = 2`,
        provides: "margin_percent = 3\n",
        model: dollars,
      },
      130_011n,
      1_040_082n,
    ],
    [
      "have the margin of the model first",
      {
        head: `${rate}\n[[price_rules]]\nmodels = "gpt-*"\nmargin_percent = 12.5`,
        model: `${dollars}\nmargin_percent = 100`,
      },
      231_130n,
      1_849_034n,
    ],
    [
      "stand beside prices in roubles, which have no margin",
      {
        head: `${rate}\n[pricing]\nmargin_percent = 20`,
        model: "usd_input_per_1m = 1.25\nrub_output_per_1m = 7",
      },
      138_678n,
      7n,
    ],
  ])("%s", (_, given, input, output) => {
    expect(shown(soldOf(given).standard, ["input", "output"])).toEqual([[0, input, output]]);
  });

  test("have the rate of a file, and say so on each request", () => {
    const head = '[currency]\nusd_file = "usd.txt"';
    const sold = soldOf({ head, model: dollars }, { "usd.txt": "100\n" });
    expect(shown(sold.standard, ["input"])).toEqual([[0, 125_000n]]);
    expect(sold.standard[0].note).toBe('{"usd_rate":"100"}');
    expect(soldOf({ model: roubles }).standard[0].note).toBeNull();
  });

  test("are the costs of a route that names none, without the margin", () => {
    const given = { head: `${rate}\n[pricing]\nmargin_percent = 20`, model: dollars };
    expect(shown(soldOf(given).vendor?.standard, ["input", "output"])).toEqual([
      [0, 115_565n, 924_517n],
    ]);
    expect(soldOf({ model: roubles }).vendor).toBeUndefined();
  });

  test.each<[string, Given, string]>([
    [
      "beside roubles",
      { head: rate, model: `${dollars}\nrub_input_per_1m = 1` },
      "models[0].usd_input_per_1m: is set beside rub_input_per_1m: remove one of them",
    ],
    [
      "as a text",
      { head: rate, model: 'usd_input_per_1m = "1"\nrub_output_per_1m = 1' },
      "models[0].usd_input_per_1m: must be a number of dollars per 1,000,000 tokens, such as 1.25, from 0 to 1000000",
    ],
    [
      "above the highest price",
      { head: rate, model: "usd_input_per_1m = 100000\nrub_output_per_1m = 1" },
      "models[0].usd_input_per_1m: is 9245170000 thousandths of a rouble per 1,000,000 tokens (25 roubles are 25000): the most is 1000000000",
    ],
  ])("%s are refused", (_, given, problem) => {
    expect(problemsOf(given)).toContain(problem);
  });

  test.each<[string, string, Readonly<Record<string, string>>]>([
    ["usd = 0", "currency.usd: must be above 0", {}],
    [
      'usd_file = "usd.txt"',
      "currency.usd_file: the file cannot be read: no such file (a relative path starts at the folder of the config)",
      {},
    ],
    [
      'usd_file = "usd.txt"',
      "currency.usd_file: must name a file that contains only a number above 0, such as 92.5",
      { "usd.txt": "92,5" },
    ],
  ])("with the wrong rate %s are one problem", (lines, problem, files) => {
    expect(problemsOf({ head: `[currency]\n${lines}`, model: dollars }, files)).toEqual([problem]);
  });

  test("without a rate are one problem each", () => {
    const problem = "is in dollars: set [currency] usd, the roubles for one dollar";
    expect(problemsOf({ model: dollars })).toEqual([
      `models[0].usd_input_per_1m: ${problem}`,
      `models[0].usd_output_per_1m: ${problem}`,
    ]);
  });
});

describe("tiers by the length of the prompt", () => {
  const cached = `${roubles}\nrub_cached_input_per_1m = 10`;
  test.each<[string, string, unknown[]]>([
    [
      "above a border",
      "tiers = [{ above_prompt_tokens = 272000, rub_input_per_1m = 300 }]",
      [
        [0, 100n, 10n, 100n, 200n],
        [272_001, 300n, 10n, 300n, 200n],
      ],
    ],
    [
      "from a border on",
      "tiers = [{ from_prompt_tokens = 200, rub_output_per_1m = 9 }, { from_prompt_tokens = 300, rub_cached_input_per_1m = 1 }]",
      [
        [0, 100n, 10n, 100n, 200n],
        [200, 100n, 10n, 100n, 9n],
        [300, 100n, 1n, 100n, 200n],
      ],
    ],
  ])("%s have the prices that differ from the first ones", (_, tiers, expected) => {
    const { standard } = soldOf({ model: `${cached}\n${tiers}` });
    const names = ["input", "cachedInput", "cacheWrite", "output"] as const;
    expect(shown(standard, names)).toEqual(expected);
  });

  test("are told on a request, but for the first", () => {
    const tiers = "tiers = [{ above_prompt_tokens = 9, rub_input_per_1m = 300 }]";
    const { standard } = soldOf({ model: `${roubles}\n${tiers}` });
    expect(standard.map(({ note }) => note)).toEqual([null, '{"from_prompt_tokens":10}']);
  });

  const both =
    "must have above_prompt_tokens (exclusive) or from_prompt_tokens (inclusive), and not both";
  test.each([
    ["[{ rub_input_per_1m = 1 }]", `models[0].tiers[0]: ${both}`],
    ["[{ from_prompt_tokens = 1, above_prompt_tokens = 1 }]", `models[0].tiers[0]: ${both}`],
    [
      "[{ from_prompt_tokens = 9 }, { above_prompt_tokens = 8 }]",
      "models[0].tiers[1]: must begin at more tokens than the tier before it",
    ],
    [
      "[{ from_prompt_tokens = 9, rub_inputs = 8 }]",
      "models[0].tiers[0].rub_inputs: unknown key; did you mean rub_input_per_1m?",
    ],
    [
      "[{ from_prompt_tokens = 9, rub_input_per_1m = 0 }]",
      "models[0].rub_input_per_1m: is 0: add free = true if the model costs nothing",
    ],
  ])("%s is refused", (tiers, problem) => {
    const [found] = problemsOf({ model: `${roubles}\ntiers = ${tiers}` });
    expect(found?.replace(/; the keys here .*/, "; did you mean rub_input_per_1m?")).toBe(problem);
  });
});

describe("service tiers", () => {
  const flex = "[models.service_tiers.flex]\nrub_input_per_1m = 50";
  const tiers = "tiers = [{ from_prompt_tokens = 500, rub_input_per_1m = 300 }]";

  test("have the prices that differ from the standard ones", () => {
    const { services } = soldOf({ model: `${roubles}\n${flex}` });
    expect(shown(services.flex, ["input", "output"])).toEqual([[0, 50n, 200n]]);
    expect(services.priority).toBeUndefined();
  });

  test("have the higher price for long prompts, unless they name their own", () => {
    const { services } = soldOf({ model: `${roubles}\n${tiers}\n${flex}` });
    expect(shown(services.flex, ["input"])).toEqual([
      [0, 50n],
      [500, 300n],
    ]);
    const own = `${flex}\ntiers = [{ from_prompt_tokens = 500, rub_input_per_1m = 150 }]`;
    const withOwn = soldOf({ model: `${roubles}\n${tiers}\n${own}` }).services;
    expect(shown(withOwn.flex, ["input"])).toEqual([
      [0, 50n],
      [500, 150n],
    ]);
    expect(withOwn.flex?.[1]?.note).toBe('{"service_tier":"flex","from_prompt_tokens":500}');
  });

  test("without a known name are refused", () => {
    const model = `${roubles}\nservice_tiers = { slow = {} }`;
    expect(problemsOf({ model })).toEqual([
      "models[0].service_tiers.slow: unknown key; the keys here are flex, priority, batch, fast",
    ]);
  });
});

describe("a price below its cost is warned of", () => {
  const end = "prices are thousandths of a rouble per 1,000,000 tokens";
  const costs = "rub_cost_input_per_1m = 90\nrub_cost_output_per_1m = 190";
  test.each<[string, Given, readonly string[]]>([
    ["none", { model: roubles, route: costs }, []],
    [
      "in a tier by length",
      {
        model: roubles,
        route: `${costs}\ntiers = [{ above_prompt_tokens = 9, rub_cost_input_per_1m = 180 }]`,
      },
      [
        `models[0].rub_input_per_1m: is below the cost of routes[0] for prompts of 10 tokens and more, 100 for 180: ${end}`,
      ],
    ],
    [
      "in a service tier",
      {
        model: `${roubles}\nservice_tiers = { flex = { rub_output_per_1m = 20 } }`,
        route: costs,
      },
      [
        `models[0].rub_output_per_1m: is below the cost of routes[0] in the service tier flex, 20 for 190: ${end}`,
      ],
    ],
    [
      "of a price that another one stands for",
      { model: roubles, route: `${costs}\nrub_cost_cache_write_per_1m = 112` },
      [`models[0].rub_cache_write_per_1m: is below the cost of routes[0], 100 for 112: ${end}`],
    ],
    [
      "by a plan",
      {
        model: roubles,
        route: costs,
        tail: '[[plans]]\nid = "sale"\n[[plans.rules]]\nmodels = "*"\npercent = 92',
      },
      [
        `plans[0].rules[0]: gpt-5.rub_output_per_1m: is below the cost of routes[0], 184 for 190: ${end}`,
      ],
    ],
    [
      "by a plan, once for each rule that reaches a model",
      {
        model: roubles,
        route: costs,
        tail: '[[plans]]\nid = "sale"\n[[plans.rules]]\nmodels = "gpt-5"\npercent = 50\n[[plans.rules]]\nmodels = "*"\npercent = 40',
      },
      [
        `plans[0].rules[0]: gpt-5.rub_input_per_1m: is below the cost of routes[0], 50 for 90: ${end}; 1 more price of this rule is below its cost`,
      ],
    ],
  ])("%s", (_, given, warnings) => expect(warningsOf(given)).toEqual([...warnings]));
});

describe("plans", () => {
  const plan = (rule: string): string =>
    `[[plans]]\nid = "sale"\n[[plans.rules]]\nmodels = "gpt-*"\n${rule}`;
  const cached = `${roubles}\nrub_cached_input_per_1m = 15`;

  const plannedOf = (given: Given) => {
    const [, [rule] = []] = configOf(text(given)).plans[0]?.models[0] ?? [];
    return rule;
  };

  test.each<[string, Given, unknown[]]>([
    [
      "a part of the price, rounded up",
      { model: cached, tail: plan("percent = 92.5") },
      [0, 93n, 14n, 185n],
    ],
    [
      "prices of their own; the others are the model's",
      { model: cached, tail: plan("rub_input_per_1m = 60") },
      [0, 60n, 15n, 200n],
    ],
    [
      "another margin over dollars",
      {
        head: "[currency]\nusd = 100\n[pricing]\nmargin_percent = 50",
        model: "usd_input_per_1m = 1\nusd_output_per_1m = 2\nusd_cached_input_per_1m = 0.1",
        tail: plan("margin_percent = 10"),
      },
      [0, 110_000n, 11_000n, 220_000n],
    ],
    [
      "dollars without a margin",
      {
        head: "[currency]\nusd = 100\n[pricing]\nmargin_percent = 50",
        model: cached,
        tail: plan("usd_output_per_1m = 2"),
      },
      [0, 100n, 15n, 200_000n],
    ],
  ])("have %s", (_, given, expected) => {
    const tiers = plannedOf(given)?.schedule[0].prices.standard;
    expect(shown(tiers, ["input", "cachedInput", "output"])).toEqual([expected]);
    expect(tiers?.[0].note).toContain('"plan":"sale","plan_rule":"gpt-*"');
  });

  test("have the model's tiers, in which the higher price counts", () => {
    const model = `${cached}\ntiers = [{ from_prompt_tokens = 9, rub_input_per_1m = 300 }]`;
    const own = plannedOf({ model, tail: plan("rub_input_per_1m = 60") });
    expect(shown(own?.schedule[0].prices.standard, ["input"])).toEqual([
      [0, 60n],
      [9, 300n],
    ]);
    const part = plannedOf({ model, tail: plan("percent = 50") });
    expect(shown(part?.schedule[0].prices.standard, ["input"])).toEqual([
      [0, 50n],
      [9, 150n],
    ]);
  });

  test.each([
    ["", "plans[0].rules[0]: must have one of percent, margin_percent and prices of its own"],
    [
      "percent = 90\nrub_input_per_1m = 1",
      "plans[0].rules[0]: must have one of percent, margin_percent and prices of its own",
    ],
    ["percent = 0", "plans[0].rules[0].percent: must be above 0: a free model has free = true"],
    [
      "tiers = [{ from_prompt_tokens = 9, rub_output_per_1m = 0 }]",
      "plans[0].rules[0].rub_output_per_1m: must be above 0: a free model has free = true",
    ],
    [
      "usd_output_per_1m = 1",
      "plans[0].rules[0].usd_output_per_1m: is in dollars: set [currency] usd, the roubles for one dollar",
    ],
    [
      "percent = 90\nfrom = 2027-01-01\nuntil = 2027-01-01",
      "plans[0].rules[0].until: must be later than from",
    ],
    [
      "percent = 90\nfrom = 2027-01-01T00:00:00",
      "plans[0].rules[0].from: must be a date such as 2026-12-01 (midnight in UTC), or a time with its offset such as 2026-12-01T00:00:00+03:00",
    ],
    [
      "margin_percent = 10",
      "plans[0].rules[0].margin_percent: needs prices in dollars (usd_*), and gpt-5 has none: write percent, or name other models",
    ],
  ])("with %j are refused", (rule, problem) => {
    expect(problemsOf({ model: cached, tail: plan(rule) })).toEqual([problem]);
  });

  test("are not named none", () => {
    const tail = plan("percent = 90").replace("sale", "none");
    expect(problemsOf({ model: cached, tail })).toEqual([
      "plans[0].id: must be another name: `--plan none` takes a plan away",
    ]);
  });

  test("may have a margin for all models behind the rules of those without dollars", () => {
    const tail = `${plan("percent = 90")}\n[[plans.rules]]\nmodels = "*"\nmargin_percent = 5`;
    expect(problemsOf({ model: cached, tail })).toEqual([]);
  });

  test("with a rule for no model are warned of", () => {
    const tail = plan("percent = 90").replace("gpt-*", "o3");
    expect(warningsOf({ model: cached, tail })).toEqual([
      "plans[0].rules[0].models: fits no model",
    ]);
  });
});

describe("[[prices]]", () => {
  const entry = (lines: string): string => `[[prices]]\nmodel = "gpt-5"\n${lines}`;
  const day = Date.UTC(2026, 11, 1);

  test("follow each other in time, in the config and in the file of [pricing]", () => {
    const files = { "prices.toml": entry(`from = "2026-12-01"\n${roubles}`) };
    const head = '[pricing]\nfile = "prices.toml"';
    const given = {
      head,
      tail: `${entry(`from = 2026-12-01T03:00:00+02:00\n${roubles}`)}\n${entry(roubles)}`,
    };
    const [model] = configOf(text(given), { files }).models;
    expect(model?.schedule.map(({ fromMs }) => fromMs)).toEqual([0, day, day + 3_600_000]);
  });

  test.each<[string, Readonly<Record<string, string>>, string]>([
    [
      "is missing",
      {},
      "prices.toml: cannot be read: no such file; `tollgate prices sync` creates it",
    ],
    [
      "has a wrong price",
      { "prices.toml": entry(`from = 2026-12-01\nrub_input_per_1m = 1.5\nrub_output_per_1m = 2`) },
      "prices.toml: prices[0].rub_input_per_1m: must be a whole number of thousandths",
    ],
    [
      "has anything else",
      { "prices.toml": '[[providers]]\napi_key = "secret"' },
      "prices.toml.providers: unknown key; the keys here are prices",
    ],
  ])("of a file that %s are refused with its name", (_, files, problem) => {
    const head = '[pricing]\nfile = "prices.toml"';
    const tail = entry(`from = 2027-01-01\n${roubles}`);
    const problems = problemsOf({ head, model: roubles, tail }, files);
    expect(problems[0]).toContain(problem);
    expect(problems.join()).not.toContain("secret");
  });

  test.each<[string, Given, string]>([
    [
      "for no model",
      { model: roubles, tail: `[[prices]]\nmodel = "gpt-4"\n${roubles}` },
      'prices[0].model: no model has the id "gpt-4"',
    ],
    [
      "beside prices of the model",
      { model: roubles, tail: entry(roubles) },
      "prices[0]: the model has prices in models[0] too: remove one of them, or set from here",
    ],
    [
      "twice for one moment",
      {
        model: roubles,
        tail: `${entry(`from = 2026-12-01\n${roubles}`)}\n${entry(`from = 2026-12-01T00:00:00Z\n${roubles}`)}`,
      },
      "prices[1].from: is the same moment as that of prices[0]",
    ],
    [
      "without a price",
      { model: roubles, tail: entry("from = 2026-12-01\nrub_input_per_1m = 1") },
      "prices[0].rub_output_per_1m: is required: a whole number of thousandths of a rouble per 1,000,000 tokens (25 roubles are 25000), or write free = true",
    ],
    [
      "from no date",
      { model: roubles, tail: entry(`from = "tomorrow"\n${roubles}`) },
      "prices[0].from: must be a date such as 2026-12-01 (midnight in UTC), or a time with its offset such as 2026-12-01T00:00:00+03:00",
    ],
  ])("%s are refused", (_, given, problem) => expect(problemsOf(given)).toContain(problem));
});

test("a name of a model is another one's neither as id nor as alias", () => {
  const other = `[[models]]\nid = "gpt-4"\n${roubles}\nmax_output_tokens = 1\naliases = ["gpt-5", "x", "old-*"]\n[[models.routes]]\nprovider = "one"\nmodel = "b"`;
  const model = `${roubles}\naliases = ["x", "gpt-5-*"]`;
  expect(problemsOf({ model, tail: other })).toEqual([
    'models[1].aliases[0]: "gpt-5" is already a name of models[0]',
    'models[1].aliases[1]: "x" is already a name of models[0]',
  ]);
});

test("every price has a key in dollars", () => {
  const lines = byPrice.map(({ price: { key } }) => `${key.replace("rub_", "usd_")} = 1`);
  const costs = byPrice.map(({ price: { key } }) => `${key.replace("rub_", "usd_cost_")} = 0.5`);
  const sold = soldOf({ head: rate, model: lines.join("\n"), route: costs.join("\n") });
  for (const { price, unit } of byPrice)
    expect(sold.standard[0].price[price.name]).toBe(92_452n * unit.nanoOfOne);
});
