import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import {
  chatModel,
  type Fields,
  importAll,
  type Imported,
  importSample,
  importText,
  listFile,
  listText,
  providers,
} from "./priceList.ts";

let cli: CliFolder;
beforeAll(async () => {
  cli = await openCliFolder(providers);
}, 60_000);
afterAll(() => cli.remove());

type Words = readonly string[];
const run = (kind: string, models: string, ...more: Words) =>
  importSample(cli, kind, models, ...more);

describe("the selection", () => {
  const ids = async (...args: readonly string[]) => {
    const { stdout } = await cli.run(
      "models",
      "import",
      listFile,
      "--rate",
      "92.5",
      "--provider",
      "my-openai",
      "--json",
      ...args,
    );
    return (JSON.parse(stdout) as Imported).models.map(({ list_name }) => list_name);
  };

  test.each<readonly [args: readonly string[], names: readonly string[]]>([
    [["--models", "gpt-5-mini"], ["gpt-5-mini"]],
    [
      ["--models", "gpt-5*"],
      ["gpt-5-mini", "gpt-5-pro"],
    ],
    [["--models", "*-mini"], ["gpt-5-mini"]],
    [
      ["--models", "gpt-5-pro, gpt-5-mini"],
      ["gpt-5-mini", "gpt-5-pro"],
    ],
    [["--models", "*gemini*"], ["gemini/gemini-2.5-pro"]],
    [["--litellm-provider", "gemini"], ["gemini/gemini-2.5-pro"]],
    [["--litellm-provider", "gemini", "--models", "gemini-2.5-*"], ["gemini/gemini-2.5-pro"]],
    [
      ["--litellm-provider", "gemini", "--models", "gemini/gemini-2.5-*"],
      ["gemini/gemini-2.5-pro"],
    ],
    [
      ["--litellm-provider", "anthropic", "--models", "*"],
      ["claude-sonnet-4-5", "claude-3-opus-20240229"],
    ],
    [["--litellm-provider", "azure"], ["azure/gpt-5-mini"]],
  ])("by %j", async (args, names) => {
    expect(await ids(...args)).toEqual([...names]);
  });

  test("warns of a name that matches nothing", async () => {
    const { status, stderr } = await run("openai", "gpt-5-mini,gpt-6");
    expect({ status, stderr }).toEqual({
      status: 0,
      stderr: "warning: no model of the list matches gpt-6",
    });
  });

  test.each<readonly [args: readonly string[], message: string]>([
    [
      ["--models", "gpt-5-mimi"],
      "no model of the list matches --models gpt-5-mimi; did you mean gpt-5-mini?",
    ],
    [
      ["--models", "gemini-2.5-*"],
      "no model of the list matches --models gemini-2.5-*: write the names as in the list, or use * to match several",
    ],
    [
      ["--models", "sample_spec"],
      "no model of the list matches --models sample_spec: write the names as in the list, or use * to match several",
    ],
    [
      ["--litellm-provider", "opnai"],
      "no model of the list has the litellm_provider opnai; did you mean openai?",
    ],
    [["--litellm-provider", "x"], "no model of the list has the litellm_provider x"],
    [
      ["--models", "tts-*,dall-e-3"],
      "none of the selected models can be imported: 2 (mode audio_speech), 1 (mode image_generation)",
    ],
  ])("that is empty is an error: %j", async (args, message) => {
    const line = ["models", "import", listFile, "--rate", "1", "--provider", "my-openai", ...args];
    expect(await cli.run(...line)).toEqual({ status: 1, stdout: "", stderr: `error: ${message}` });
  });

  test("counts on stderr what it skips, the most frequent reason first", async () => {
    const { status, stdout, stderr } = await run("openai", "*");
    expect(status).toBe(0);
    expect(stdout.match(/^\[\[models\]\]$/gm)).toHaveLength(10);
    expect(stderr).toBe(
      "skipped 5 of 15 models: 2 (mode audio_speech), 1 (mode image_generation), 1 (mode audio_transcription), 1 (an earlier model has the same id)",
    );
  });

  test.each<readonly [reason: string, fields: Fields]>([
    ["no mode", { mode: "null" }],
    ["mode completion", { mode: '"completion"' }],
    ["no price for each token", { input_cost_per_token: "null", input_cost_per_second: "0.1" }],
    ["no price for each token", { output_cost_per_token: "null" }],
    [
      "prices for other units than tokens",
      { input_cost_per_token: "0", output_cost_per_token: "0.0", output_cost_per_image: "0.04" },
    ],
    ["unusable value of input_cost_per_token", { input_cost_per_token: "-1e-06" }],
    ["unusable value of output_cost_per_token", { output_cost_per_token: '"free"' }],
    ["unusable value of output_cost_per_token", { output_cost_per_token: "1e-999999999" }],
    ["unusable value of cache_read_input_token_cost", { cache_read_input_token_cost: "[1]" }],
    [
      "unusable value of search_context_cost_per_query",
      { search_context_cost_per_query: '{"low": true}' },
    ],
    [
      "a price above 1000000000, the highest of the config (is --rate right?)",
      { output_cost_per_token: "1.1" },
    ],
  ])("skips, with the reason %j, %j", async (reason, fields) => {
    const { models, skipped } = await importAll(cli, {
      good: chatModel,
      bad: { ...chatModel, ...fields },
    });
    expect(models).toMatchObject([{ id: "good" }]);
    expect(skipped).toEqual([{ list_name: "bad", reason }]);
  });

  test.each(["two words", "a,b", "a*", "", "line\nbreak", "${HOME}", "\u202e", "x".repeat(257)])(
    "skips the name %j, which the config does not allow",
    async (name) => {
      const { skipped } = await importAll(cli, { good: chatModel, [name]: chatModel });
      expect(skipped).toEqual([
        { list_name: name, reason: "a name that the config does not allow" },
      ]);
    },
  );

  test("of a name that stands twice takes the last, as other readers of JSON do", async () => {
    const text = `{"a": ${listText({ x: chatModel }).slice(6, -1)}, "a": {"mode": "chat", "input_cost_per_token": 3e-6, "output_cost_per_token": 1}}`;
    const { stdout } = await importText(
      cli,
      text,
      "--rate",
      "1",
      "--provider",
      "my-openai",
      "--models",
      "a",
      "--json",
    );
    expect((JSON.parse(stdout) as Imported).models).toMatchObject([{ rub_input_per_1m: 3000 }]);
  });
});
