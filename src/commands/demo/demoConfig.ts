/** A model of the demo. Prices are thousandths of a rouble per 1,000,000 tokens. */
interface DemoModel {
  readonly id: string;
  readonly input: number;
  readonly cachedInput?: number;
  readonly output: number;
}

const MODELS: readonly DemoModel[] = [
  { id: "demo-large", input: 250_000, cachedInput: 62_500, output: 2_000_000 },
  { id: "demo-small", input: 50_000, cachedInput: 12_500, output: 400_000 },
  { id: "demo-code", input: 120_000, cachedInput: 12_000, output: 900_000 },
  { id: "demo-reasoner", input: 180_000, cachedInput: 45_000, output: 1_400_000 },
];

/** A route of every model, in the order in which they are tried. */
interface DemoRoute {
  readonly provider: string;
  /** What the provider costs the operator, as a part of the price. */
  readonly costPercent: number;
}

/** Both are the same demo provider, so that there is something to fail over to. */
export const DEMO_ROUTES = [
  { provider: "demo", costPercent: 62 },
  { provider: "demo-spare", costPercent: 74 },
] as const satisfies readonly DemoRoute[];

/** The config of `tollgate demo`. With `silent` the gateway logs nothing. */
export function demoConfigToml(options: {
  listen: string;
  providerUrl: string;
  silent: boolean;
}): string {
  return [
    `[server]\nlisten = "${options.listen}"\ndrain_delay = "0s"\nshutdown_grace = "2s"\n`,
    `[database]\npath = "demo.db"\n`,
    `[log]\nlevel = "${options.silent ? "silent" : "info"}"\nformat = "pretty"\n`,
    ...DEMO_ROUTES.map(({ provider }) => providerToml(provider, options.providerUrl)),
    ...MODELS.map((model) => modelToml(model, DEMO_ROUTES)),
  ].join("\n");
}

/** The lines that add the demo provider with one model to a config. */
export function providerExampleToml(url: string): string {
  const model = { id: "demo-large", input: 250_000, output: 2_000_000 };
  return [providerToml("demo", url), modelToml(model, [{ provider: "demo" }])].join("\n");
}

function providerToml(id: string, url: string): string {
  return `[[providers]]\nid = "${id}"\nbase_url = "${url}"\n`;
}

function modelToml(
  model: DemoModel,
  routes: readonly (Pick<DemoRoute, "provider"> & Partial<DemoRoute>)[],
): string {
  const { id, input, cachedInput, output } = model;
  return [
    "[[models]]",
    `id = "${id}"`,
    `rub_input_per_1m = ${input}`,
    cachedInput === undefined ? undefined : `rub_cached_input_per_1m = ${cachedInput}`,
    `rub_output_per_1m = ${output}`,
    "max_output_tokens = 4096",
    "context_tokens = 200000",
    "",
    ...routes.flatMap(({ provider, costPercent }, index) => [
      "[[models.routes]]",
      `provider = "${provider}"`,
      routes.length > 1 ? `priority = ${index + 1}` : undefined,
      ...(costPercent === undefined ? [] : costLines(model, costPercent)),
      "",
    ]),
  ]
    .filter((line) => line !== undefined)
    .join("\n");
}

function costLines({ input, cachedInput, output }: DemoModel, percent: number): string[] {
  const cost = (price: number): number => Math.round((price * percent) / 100);
  return [
    `rub_cost_input_per_1m = ${cost(input)}`,
    ...(cachedInput === undefined ? [] : [`rub_cost_cached_input_per_1m = ${cost(cachedInput)}`]),
    `rub_cost_output_per_1m = ${cost(output)}`,
  ];
}
