import { describe, expect, test } from "bun:test";
import { byProblem, configOf, loadText, minimal } from "./loadText.ts";

const load = (lines: string) => loadText(`[telemetry]\n${lines}\n${minimal}`);

describe("telemetry", () => {
  test.each([
    ['otlp = "http://127.0.0.1:4318"', "http://127.0.0.1:4318", {}],
    ['otlp = "https://otlp.example/otlp/"', "https://otlp.example/otlp", {}],
    [
      'otlp = "http://localhost:4318"\nheaders = { Authorization = "Bearer k" }',
      "http://localhost:4318",
      { authorization: "Bearer k" },
    ],
  ])("is read: %s", (lines, otlp, headers) => {
    const { config, warnings } = load(lines);
    expect(config?.telemetry).toEqual({ otlp, headers });
    expect(warnings).toEqual([]);
  });

  test.each(["", 'otlp = ""', "headers = {}"])("is off: %s", (lines) => {
    expect(load(lines)).toMatchObject({ config: { telemetry: undefined }, problems: [] });
  });

  test.each(
    byProblem({
      "otlp: must be a URL that begins with https:// or http://": 'otlp = "127.0.0.1:4318"',
      "otlp: must not include /v1/traces: the gateway adds it":
        'otlp = "http://127.0.0.1:4318/v1/traces"',
      "otlp: must not contain a user or password: use headers":
        'otlp = "http://user:canary@127.0.0.1:4318"',
      "otlp: must not contain a query (?) or fragment (#)":
        'otlp = "http://127.0.0.1:4318?key=canary"',
      'otlp: must be an address in quotes, such as "http://127.0.0.1:4318"': "otlp = 4318",
      "headers: requires otlp: set it, or remove the headers": 'headers = { a = "canary" }',
      "headers.content-type: is a header that the gateway sets: remove it":
        'otlp = "http://127.0.0.1:4318"\nheaders = { content-type = "canary" }',
      "headers.a: must have a value of printable ASCII on one line":
        'otlp = "http://127.0.0.1:4318"\nheaders = { a = "can\\nary" }',
    }),
  )("is refused: %s", (lines, problem) => {
    const { problems } = load(lines);
    expect(problems).toEqual([`telemetry.${problem}`]);
    expect(problems.join()).not.toContain("canary");
  });

  test("to a public address without TLS is used with a warning", () => {
    expect(load('otlp = "http://otlp.example"').warnings).toEqual([
      "telemetry.otlp: is http:// to a public address: the headers and all spans are sent unencrypted",
    ]);
  });

  test("whose header holds a secret makes a readable file suspicious", () => {
    const text = `[telemetry]\notlp = "http://127.0.0.1:4318"\nheaders = { x-api-key = "canary" }\n${minimal}`;
    const { warnings } = loadText(text, { mode: 0o644 });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("telemetry.headers.x-api-key");
    expect(warnings[0]).not.toContain("canary");
  });

  test("has headers from the environment", () => {
    const text = `[telemetry]\notlp = "http://127.0.0.1:4318"\nheaders = { x-api-key = "\${K}" }\n${minimal}`;
    const config = configOf(text, { environment: { K: "canary" } });
    expect(config.telemetry?.headers).toEqual({ "x-api-key": "canary" });
  });
});
