import { expect, test } from "bun:test";
import { exampleConfig } from "../../src/config/load.ts";
import type { Options } from "../../src/config/option.ts";
import { sections } from "../../src/config/sections.ts";
import { loadText } from "./loadText.ts";

const environment = {
  OPENAI_API_KEY: "sk-openai",
  ANTHROPIC_API_KEY: "sk-ant",
  GEMINI_API_KEY: "AIza-gemini",
  GIGACHAT_KEY: "gigachat",
  GROQ_KEY: "gsk-groq",
};

/** The example with every setting that is switched off switched on. */
const complete = exampleConfig().replaceAll(/^#(?! )/gm, "");

test("the example loads as it stands, with nothing to warn of", () => {
  const { config, problems, warnings } = loadText(exampleConfig(), { environment, mode: 0o644 });
  expect(problems).toEqual([]);
  expect(warnings).toEqual([]);
  expect(config?.models.map(({ id }) => id)).toEqual([
    "gpt-5-mini",
    "gpt-5-nano",
    "llama3.2",
    "text-embedding-3-small",
  ]);
});

test("it also loads with every setting switched on", () => {
  const text = complete.replace("/run/secrets/openrouter", "openrouter.key");
  const { config, problems, warnings } = loadText(text, {
    environment,
    files: { "openrouter.key": "sk-router\n" },
  });
  expect(problems).toEqual([]);
  expect(warnings).toEqual([]);
  expect(config?.metrics?.listen).toEqual({ kind: "tcp", host: "127.0.0.1", port: 9090 });
  expect(config?.models[0]?.routes.map(({ provider }) => provider)).toEqual([
    "openai",
    "openrouter",
  ]);
});

test("it names every key that the file may have", () => {
  const keys = new Set(keysOf(sections));
  expect(keys.size).toBeGreaterThan(50);
  for (const key of keys)
    expect(complete).toMatch(new RegExp(`^(?:\\[+)?(?:\\w+\\.)?${key}\\b`, "m"));
});

// Bad as every kind of value: it is no duration, address, word of a list, id, header value or file.
const canary = "CANARY \u0007 -, *";

/** Every setting of the example that is a text, switched on, as its line number and the two parts around its value. */
const lines = complete.split("\n");
const settings = lines.flatMap((line, index) => {
  const match = /^([a-z_]+ = )"[^"]*"/.exec(line);
  return match === null ? [] : [[line.split(" ")[0] ?? "", index, match[1] ?? ""] as const];
});

test("the example has text settings", () => expect(settings.length).toBeGreaterThan(30));

test.each(settings)("the value of %s (line index %i) is in no message", (_, index, start) => {
  const environment = { CANARY: canary, OPENAI_API_KEY: "CANARY" };
  const written = [`${start}"\${CANARY}"`, `${start}${JSON.stringify(canary)}`];
  for (const line of written) {
    const text = lines.with(index, line).join("\n");
    const { problems, warnings } = loadText(text, { environment, mode: 0o644 });
    const said = [...problems, ...warnings].join("\n");
    // A name that is wrong in the file itself is repeated: the operator looks for it there.
    const isName = /^(?:id|provider|model) /.test(start) && line !== written[0];
    if (!isName) expect(said).not.toContain("CANARY");
    expect(problems.length).toBeGreaterThan(0);
  }
});

test("a value whose type is wrong is in no message", () => {
  const text =
    'server = "CANARY"\nmodels = "CANARY"\nproviders = [{ api_key = ["CANARY"], headers = "CANARY" }]';
  const { problems } = loadText(text);
  expect(problems).toHaveLength(6);
  expect(problems.join("\n")).not.toContain("CANARY");
});

/** The names of all keys that the example shows, at any depth. A price in dollars is shown in roubles. */
function keysOf(options: Options): readonly string[] {
  return Object.values(options).flatMap(({ keys, spec, options = {} }) => {
    const shown = spec.example === false ? [] : keys.filter((key) => !key.startsWith("usd_"));
    return shown.concat(keysOf(options));
  });
}
