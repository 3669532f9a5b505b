import { type Command, InvalidArgumentError } from "commander";
import { loadConfig } from "../../config/load.ts";
import type { Config, ModelConfig, RouteConfig } from "../../config/schema.ts";
import { modelPricesOf } from "../../administration/reports/modelPrices.ts";
import type { ModelPrices } from "../../contract/operator/modelPrices.ts";
import { assert } from "../../lib/assert.ts";
import { systemClock } from "../../lib/clock.ts";
import { endpointsOf } from "../../gateway/catalog.ts";
import { pricePerMillion, table, visible } from "../../lib/terminal.ts";
import { printResult, type Result } from "../cli/print.ts";
import { globalOptions } from "../cli/session.ts";
import { InvalidValue, modelPatterns } from "../../administration/values.ts";
import { type Decimal, parseDecimal } from "../../lib/decimal.ts";
import type { ImportOptions } from "./importPrices.ts";

type ShownModel = ModelPrices["data"][number];

/** Registers `tollgate models` and `tollgate models import`. */
export function addModels(program: Command): void {
  const models = program
    .command("models")
    .description("list the models of the config with prices and routes")
    .action((_: unknown, command: Command) => {
      const { config: path, json } = globalOptions(command);
      const { config } = loadConfig({ path, secrets: "unread" });
      printResult(modelsResult(config, systemClock.epochMs()), json);
    });
  addImport(models);
}

function modelsResult(config: Config, nowMs: number): Result {
  const prices = modelPricesOf(config, nowMs).data;
  return {
    document: config.models.map((model, at) => modelDocument(model, prices[at])),
    text: () =>
      config.models.length === 0
        ? visible(`no models yet: add [[models]] to ${config.file}`)
        : modelsText(config.models, prices),
  };
}

/** Prices as in the config: thousandths of a rouble per 1,000,000 tokens, and per 1,000 web searches. */
function modelDocument(model: ModelConfig, shown: ShownModel | undefined) {
  assert(shown !== undefined, "each model has its prices");
  const { prices, tiers, service_tiers, next_prices, aliases, plans } = shown;
  const margins = inOrder(shown.routes).map(({ lowest_margin }) => lowest_margin);
  return {
    id: model.id,
    kind: model.kind,
    owned_by: model.ownedBy,
    ...prices,
    ...(tiers && { tiers }),
    ...(service_tiers && { service_tiers }),
    next_prices,
    aliases,
    plans,
    max_output_tokens: model.maxOutputTokens,
    context_tokens: model.contextTokens,
    endpoints: endpointsOf(model),
    routes: inOrder(model.routes).map((route, at) => ({
      provider: route.provider,
      model: route.model,
      api: model.kind === "embedding" ? "embeddings" : route.api,
      responses: route.responses,
      priority: route.priority,
      weight: route.weight,
      lowest_margin: margins[at] ?? null,
    })),
  };
}

function modelsText(models: readonly ModelConfig[], prices: readonly ShownModel[]): string {
  const columns = [
    { head: "model" },
    { head: "input", kind: "money" },
    { head: "cached", kind: "money" },
    { head: "cache write", kind: "money" },
    { head: "output", kind: "money" },
    { head: "priority", kind: "number" },
    { head: "weight", kind: "number" },
    { head: "provider" },
    { head: "provider's name" },
    { head: "interfaces" },
    { head: "lowest margin" },
  ] as const;
  const rows = models.flatMap((model, index) => {
    const shown = prices[index];
    assert(shown !== undefined, "each model has its prices");
    const margins = inOrder(shown.routes).map(({ lowest_margin }) => marginText(lowest_margin));
    return inOrder(model.routes).map((route, at) =>
      modelCells(shown, at === 0).concat(routeCells(model, route), margins[at] ?? ""),
    );
  });
  return `prices in roubles per 1M tokens\n\n${table(columns, rows)}`;
}

/** Such as `-4.2 % (rub_output_per_1m, from 272001 prompt tokens)`. */
function marginText(margin: ShownModel["routes"][number]["lowest_margin"]): string {
  if (margin === null) return "-";
  const { percent, price, service_tier, from_prompt_tokens, plan } = margin;
  const place = [
    price,
    ...(service_tier === null ? [] : [service_tier]),
    ...(from_prompt_tokens === 0 ? [] : [`from ${from_prompt_tokens} prompt tokens`]),
    ...(plan === null ? [] : [`plan ${plan}`]),
  ];
  return `${percent} % (${place.join(", ")})`;
}

/** Only the first of a model's routes shows the model and its prices. */
function modelCells({ id, prices, tiers }: ShownModel, isFirst: boolean): string[] {
  if (!isFirst) return ["", "", "", "", ""];
  const shown = [
    prices.rub_input_per_1m,
    prices.rub_cached_input_per_1m,
    prices.rub_cache_write_per_1m,
    prices.rub_output_per_1m,
  ];
  // The first tier is shown. A plus tells of others.
  const cells = shown.map((price) => pricePerMillion(BigInt(price)));
  return [id, ...cells.map((cell) => (tiers === undefined ? cell : `${cell}+`))];
}

function routeCells({ kind }: ModelConfig, route: RouteConfig): string[] {
  const chat = route.responses ? `${route.api} + /v1/responses` : route.api;
  return [
    String(route.priority),
    String(route.weight),
    route.provider,
    route.model,
    kind === "embedding" ? "embeddings" : chat,
  ];
}

/** By priority, then in the order of the config. */
function inOrder<Route extends { readonly priority: number }>(routes: readonly Route[]): Route[] {
  return routes.toSorted((one, other) => one.priority - other.priority);
}

/** Adds `import` to `tollgate models`. */
function addImport(models: Command): void {
  models
    .command("import")
    .description("print [[models]] for the config from LiteLLM's price list; it changes nothing")
    .argument(
      "[file]",
      "model_prices_and_context_window.json, its https address, or - for the standard input, which is the default",
    )
    .option(
      "--rate <roubles>",
      "prices in roubles, at so many for one unit of the list's currency; default: prices in dollars",
      rate,
    )
    .requiredOption("--provider <id>", "the provider of the config that serves the models")
    .option("--margin <percent>", "added to the cost; default: 0", margin)
    .option("--models <names>", "names as in the list, such as gpt-5*,o3", patterns)
    .option("--litellm-provider <name>", "only models of this litellm_provider, such as openai")
    .action(async (source: string | undefined, options: ImportOptions, command: Command) => {
      const { importPrices } = await import("./importPrices.ts");
      await importPrices(source, options, command);
    });
}

/** Names in which a * is any text. */
export function patterns(text: string): readonly string[] {
  try {
    return modelPatterns(text);
  } catch (error) {
    if (!(error instanceof InvalidValue)) throw error;
    throw new InvalidArgumentError(error.message);
  }
}

/** More than 0. */
function rate(text: string): Decimal {
  const decimal = plainDecimal(text);
  if (decimal !== undefined && decimal.digits > 0n) return decimal;
  throw new InvalidArgumentError("Write a plain decimal above 0, such as 92.4517.");
}

/** 0 or more. */
function margin(text: string): Decimal {
  const decimal = plainDecimal(text);
  if (decimal !== undefined) return decimal;
  throw new InvalidArgumentError("Write a percentage from 0, such as 20 or 12.5.");
}

function plainDecimal(text: string): Decimal | undefined {
  return /^\d{1,9}(?:\.\d{1,9})?$/.test(text) ? parseDecimal(text) : undefined;
}
