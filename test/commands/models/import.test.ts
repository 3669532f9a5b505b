import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { readdir, writeFile } from "node:fs/promises";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import {
  chatModel,
  importSample,
  importText,
  listFile,
  listText,
  providers,
  sampleDocument,
  type ImportedModel,
} from "./priceList.ts";

let cli: CliFolder;
const opened: CliFolder[] = [];
async function open(config: string | null): Promise<CliFolder> {
  const folder = await openCliFolder(config);
  opened.push(folder);
  return folder;
}
beforeAll(async () => {
  cli = await openCliFolder(providers);
}, 60_000);
afterEach(async () => {
  for (const folder of opened.splice(0)) await folder.remove();
});
afterAll(() => cli.remove());

const head = "# From prices.json. Review the prices, add them to the config, run `tollgate check`.";
type Words = readonly string[];
const run = (kind: string, models: string, ...more: Words) =>
  importSample(cli, kind, models, ...more);
const sample = (kind: string, models: string, ...more: Words) =>
  sampleDocument(cli, kind, models, ...more);
/** The output from the first table. */
const tables = (stdout: string) => stdout.slice(stdout.indexOf("[[models]]"));

test("prints a model as tables of the config, with the comment of what to do", async () => {
  const { status, stdout, stderr } = await run("openai", "gpt-5-mini", "--margin", "20");
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout).toBe(`${head}

[[models]]
id = "gpt-5-mini"
rub_input_per_1m = 27750
rub_output_per_1m = 222000
rub_cached_input_per_1m = 2775
service_tiers.flex = { rub_input_per_1m = 13875, rub_output_per_1m = 111000, rub_cached_input_per_1m = 1388 }
service_tiers.priority = { rub_input_per_1m = 49950, rub_output_per_1m = 399600, rub_cached_input_per_1m = 4995 }
max_output_tokens = 128000
context_tokens = 272000

[[models.routes]]
provider = "my-openai"
model = "gpt-5-mini"
responses = true
rub_cost_input_per_1m = 23125
rub_cost_output_per_1m = 185000
rub_cost_cached_input_per_1m = 2313
service_tiers.flex = { rub_cost_input_per_1m = 11563, rub_cost_output_per_1m = 92500, rub_cost_cached_input_per_1m = 1157 }
service_tiers.priority = { rub_cost_input_per_1m = 41625, rub_cost_output_per_1m = 333000, rub_cost_cached_input_per_1m = 4163 }`);
});

test("prints the vendor's dollars and the margin where no rate is given", async () => {
  const { status, stdout } = await cli.run(
    "models",
    "import",
    listFile,
    "--provider",
    "my-anthropic",
    "--margin",
    "12.5",
    "--models",
    "claude-sonnet-4-5",
  );
  expect(status).toBe(0);
  expect(stdout).toBe(`${head}

[[models]]
id = "claude-sonnet-4-5"
usd_input_per_1m = 3
usd_output_per_1m = 15
usd_cached_input_per_1m = 0.3
usd_cache_write_per_1m = 3.75
usd_cache_write_1h_per_1m = 6
usd_web_search_per_1k = 10
tiers = [
  { above_prompt_tokens = 200000, usd_input_per_1m = 6, usd_output_per_1m = 22.5, usd_cached_input_per_1m = 0.6, usd_cache_write_per_1m = 7.5, usd_cache_write_1h_per_1m = 12 },
]
margin_percent = 12.5
max_output_tokens = 64000
context_tokens = 200000

[[models.routes]]
provider = "my-anthropic"
model = "claude-sonnet-4-5"`);
  const folder = await open(`[currency]\nusd = 92.5\n${providers}${stdout}\n`);
  expect(await folder.json("check")).toMatchObject({ ok: true, warnings: [] });
  expect(await folder.json("models")).toMatchObject([
    {
      rub_input_per_1m: 312_188,
      tiers: [{ from_prompt_tokens: 200_001, rub_cache_write_1h_per_1m: 1_248_750 }],
      routes: [{ lowest_margin: { percent: 11.1 } }],
    },
  ]);
});

test("prints the same as one JSON document", async () => {
  expect(await sample("openai", "gpt-5-mini,tts-1", "--margin", "20")).toEqual({
    models: [
      {
        id: "gpt-5-mini",
        rub_input_per_1m: 27_750,
        rub_output_per_1m: 222_000,
        rub_cached_input_per_1m: 2775,
        max_output_tokens: 128_000,
        context_tokens: 272_000,
        service_tiers: {
          flex: {
            rub_input_per_1m: 13_875,
            rub_output_per_1m: 111_000,
            rub_cached_input_per_1m: 1388,
          },
          priority: {
            rub_input_per_1m: 49_950,
            rub_output_per_1m: 399_600,
            rub_cached_input_per_1m: 4995,
          },
        },
        routes: [
          {
            provider: "my-openai",
            model: "gpt-5-mini",
            responses: true,
            rub_cost_input_per_1m: 23_125,
            rub_cost_output_per_1m: 185_000,
            rub_cost_cached_input_per_1m: 2313,
            service_tiers: {
              flex: {
                rub_cost_input_per_1m: 11_563,
                rub_cost_output_per_1m: 92_500,
                rub_cost_cached_input_per_1m: 1157,
              },
              priority: {
                rub_cost_input_per_1m: 41_625,
                rub_cost_output_per_1m: 333_000,
                rub_cost_cached_input_per_1m: 4163,
              },
            },
          },
        ],
        list_name: "gpt-5-mini",
        notes: [],
      },
    ],
    skipped: [{ list_name: "tts-1", reason: "mode audio_speech" }],
  });
});

interface Tier {
  readonly above_prompt_tokens: number;
}

/** What `tollgate models` shows of a printed model. */
function asListed({
  list_name: _name,
  notes: _notes,
  free: _free,
  routes,
  tiers = [],
  ...keys
}: ImportedModel) {
  const shown = (tiers as readonly Tier[]).map(({ above_prompt_tokens: above }) => {
    return { from_prompt_tokens: above + 1 };
  });
  return {
    ...keys,
    ...(shown.length > 0 && { tiers: shown }),
    routes: routes.map(({ provider, model }) => ({ provider, model })),
  };
}

describe("the printed tables", () => {
  test.each([
    ["openai", "gpt-*,ollama/*,dashscope/*,text-*,claude-*"],
    ["anthropic", "claude-*"],
    ["gemini", "gemini/*,text-*"],
  ])(
    "are accepted by `check` without a warning, and listed with the same prices: %s",
    async (kind, names) => {
      // The list has no price that a search alone costs.
      const searches = '[api]\nallowed_tools = ["web_search"]\n';
      const tables = (await run(kind, names)).stdout;
      const folder = await open(`${searches}${providers}${tables}\n`);
      expect(await folder.json("check")).toMatchObject({ ok: true, problems: [], warnings: [] });
      const { models } = await sample(kind, names);
      const printed = models.map(asListed);
      expect(printed.length).toBeGreaterThan(1);
      expect(await folder.json("models")).toMatchObject(printed);
    },
  );

  test("have a comment where max_output_tokens is missing, and `check` asks for it", async () => {
    const { stdout } = await run("openai", "deepseek/*");
    const asked =
      "# Required, and not in the list. Write the provider's maximum:\n# max_output_tokens =\n";
    expect(stdout).toContain(`\n${asked}context_tokens = 131072\n`);
    const checking = await open(`${providers}${stdout}`);
    expect((await checking.run("check")).stderr).toContain(
      "models[0].max_output_tokens: is required",
    );
  });

  test("make `check` warn of each price that falls below its cost", async () => {
    const { stdout } = await run("anthropic", "claude-sonnet-4-5");
    const lowered = stdout.replace(/^(rub_(?!cost_)\w+ = )(\d+)$/gm, (_, key, price) => {
      return `${key}${Number(price) - 1}`;
    });
    const folder = await open(`${providers}${lowered}`);
    const { warnings } = (await folder.json("check")) as { readonly warnings: readonly string[] };
    expect(warnings.map((warning) => warning.replace(/: prices are .*$/, ""))).toEqual([
      "models[0].rub_input_per_1m: is below the cost of routes[0], 277499 for 277500",
      "models[0].rub_output_per_1m: is below the cost of routes[0], 1387499 for 1387500",
      "models[0].rub_cached_input_per_1m: is below the cost of routes[0], 27749 for 27750",
      "models[0].rub_cache_write_per_1m: is below the cost of routes[0], 346874 for 346875",
      "models[0].rub_cache_write_1h_per_1m: is below the cost of routes[0], 554999 for 555000",
      "models[0].rub_web_search_per_1k: is below the cost of routes[0], 924999 for 925000",
    ]);
  });

  test("quote every text of the list", async () => {
    const name = 'a"b\\c#[[x]]é';
    const fields = {
      ...chatModel,
      'cost"\n[server]\nlisten = "0.0.0.0:1"': "1",
      deprecation_date: '"2026-01-01\\n[server]"',
    };
    const { stdout } = await importText(
      cli,
      listText({ [name]: fields }),
      "--rate",
      "1",
      "--provider",
      "my-openai",
      "--models",
      "*",
    );
    const folder = await open(`${providers}${stdout}`);
    expect(await folder.json("models")).toMatchObject([{ id: name, routes: [{ model: name }] }]);
    expect(stdout).toContain('cannot express it: cost"\\n[server]\\nlisten');
  });
});

describe("the provider", () => {
  const args = ["models", "import", listFile, "--rate", "1", "--models", "gpt-5*"];

  test("must be one of the config", async () => {
    expect(await cli.run(...args, "--provider", "my-opnai")).toEqual({
      status: 1,
      stdout: "",
      stderr: "error: no provider of the config has the id my-opnai; did you mean my-openai?",
    });
    const { stderr } = await cli.run(...args, "--provider", "other");
    expect(stderr).toEndWith("has the id other; add it under [[providers]]");
  });

  test("decides by its kind what a route can have", async () => {
    const { models, skipped } = await sample("anthropic", "gpt-5*,text-*");
    expect(models.map(({ id }) => id)).toEqual(["gpt-5-mini"]);
    expect(models[0]?.routes[0]).not.toHaveProperty("responses");
    expect(skipped).toEqual([
      { list_name: "gpt-5-pro", reason: "mode responses, and the provider's kind has none" },
      {
        list_name: "text-embedding-3-small",
        reason: "mode embedding, and the provider's kind has none",
      },
    ]);
  });

  test("is not checked without a config, and the command says so", async () => {
    const folder = await open(null);
    const { status, stdout, stderr } = await folder.run(...args, "--provider", "other");
    expect(status).toBe(0);
    expect(stdout.match(/^provider = "other"$/gm)).toHaveLength(2);
    expect(stderr).toStartWith("warning: the provider other is not checked: no config: ");
    expect(await readdir(folder.folder)).toEqual([]);
  });

  test("is not checked with an invalid config, unless the command line names it", async () => {
    const folder = await open("[server]\nlisten = 5\n");
    const { status, stderr } = await folder.run(...args, "--provider", "other");
    expect(status).toBe(0);
    expect(stderr).toStartWith(
      "warning: the provider other is not checked: server.listen: must be ",
    );
    const named = await folder.run(...args, "--provider", "other", "--config", "config.toml");
    expect(named).toMatchObject({ status: 1, stdout: "" });
    expect(named.stderr).toStartWith("error: server.listen: must be ");
  });

  test("needs no secret and no database", async () => {
    const folder = await open(`${providers}api_key = "\${NOT_SET}"\n`);
    expect(await folder.run(...args, "--provider", "my-gemini")).toMatchObject({ status: 0 });
    expect(await readdir(folder.folder)).toEqual(["config.toml"]);
  });
});

describe("a list that cannot be read", () => {
  const options = ["--rate", "1", "--provider", "my-openai", "--models", "*"];
  const many = Array.from({ length: 100_000 }, (_, at) => `"model-${at}": {}`).join(",");

  test.each<readonly [what: string, text: string | Uint8Array, message: string]>([
    ["nothing", "", "is not valid JSON: download"],
    ["a web page", "<!DOCTYPE html>", "is not valid JSON: download"],
    ["half a list", listText({ a: chatModel }).slice(0, -20), "is not valid JSON: download"],
    ["a list of lists", "[{}]", "is not a price list: it must be a JSON object"],
    ["an empty list", "{}", "the price list has no models"],
    ["other JSON", '{"a": 1, "b": [], "c": null}', "the price list has no models"],
    ["deep JSON", `{"a": ${"[".repeat(100_000)}${"]".repeat(100_000)}}`, "is nested too deeply"],
    ["too many names", `{${many}}`, "has too many different names: it is not a price list"],
    ["other bytes", new Uint8Array([0x7b, 0xff, 0x7d]), "is not UTF-8: it is not a price list"],
    [
      "65 MB",
      new Uint8Array(65 * 1024 ** 2).fill(0x20),
      "is larger than 64 MB: it is not a price list",
    ],
  ])("%s", async (_, text, message) => {
    const { status, stdout, stderr } = await importText(cli, text, ...options);
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toContain(message);
    expect(stderr).toMatch(/^error: [^\n]+\n$/);
  });

  test.each([
    ["missing.json", "missing.json cannot be read: no such file"],
    [".", ". cannot be read: it is a folder"],
    ["/dev/zero", "/dev/zero is larger than 64 MB: it is not a price list"],
  ])("the file %s", async (file, message) => {
    expect(await cli.run("models", "import", file, ...options)).toEqual({
      status: 1,
      stdout: "",
      stderr: `error: ${message}`,
    });
  });
});

test("the list comes from a file, from a pipe, and from the standard input by its name -", async () => {
  const text = listText({ "gpt-5": chatModel });
  const options = ["--rate", "1", "--provider", "my-openai", "--models", "gpt-5"];
  await writeFile(`${cli.folder}/list.json`, `\ufeff${text}`);
  const outputs = [
    await cli.run("models", "import", "list.json", ...options).then(({ stdout }) => `${stdout}\n`),
    (await importText(cli, text, ...options)).stdout,
    (await importText(cli, text, "-", ...options)).stdout,
  ];
  expect(outputs[0]).toStartWith("# From list.json.");
  for (const output of outputs.slice(1)) expect(output).toStartWith("# From the standard input.");
  expect(new Set(outputs.map(tables)).size).toBe(1);
});
