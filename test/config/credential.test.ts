import { describe, expect, test } from "bun:test";
import {
  byProblem,
  configOf,
  loadText,
  key,
  problemsOf,
  provider,
  providerOf,
  warningsOf,
} from "./loadText.ts";

describe("the key", () => {
  test("stands in the file, comes from the environment, or is the trimmed content of a file", () => {
    expect(providerOf(key)?.apiKey).toBe("sk-secret");
    const fromFile = configOf(provider('api_key_file = "key.txt"'), {
      files: { "key.txt": "  sk-filed\r\n" },
    });
    expect(fromFile.providers[0]?.apiKey).toBe("sk-filed");
    const fromEnvironment = configOf(provider('api_key = "${K}"'), {
      environment: { K: "sk-env" },
    });
    expect(fromEnvironment.providers[0]?.apiKey).toBe("sk-env");
  });

  test("may be missing: silently near by, with a warning far away", () => {
    expect(providerOf("", "http://localhost:11434/v1")?.apiKey).toBeUndefined();
    expect(providerOf('api_key = ""\napi_key_file = ""')?.apiKey).toBeUndefined();
    expect(warningsOf("", "http://localhost:11434/v1")).toEqual([]);
    expect(warningsOf("")).toEqual([
      "providers[0]: has no api_key and no header that can contain one; check it",
    ]);
    expect(warningsOf('headers = { api-key = "${ONE_KEY}" }')).toEqual([]);
  });

  test("may begin with a dollar without being a variable", () => {
    expect(warningsOf('api_key = "$ecretRealKey123"')).toEqual([]);
  });

  const unfilled =
    "looks like a variable or a placeholder, and is sent as written: write an environment variable as ${NAME}";
  test.each([
    ['api_key = "$CANARY"', "api_key"],
    ['api_key = "$(CANARY)"', "api_key"],
    ['api_key = "{{CANARY}}"', "api_key"],
    ['api_key = "%CANARY%"', "api_key"],
    ['api_key = "<your-canary>"', "api_key"],
    ['headers = { authorization = "Bearer $CANARY" }', "headers.authorization"],
    ['headers = { x-api-key = "<your canary>" }', "headers.x-api-key"],
    [`${key}\nproxy = "http://user:$CANARY@127.0.0.1:3128"`, "proxy"],
  ])("that looks like a variable is taken with a warning: %s", (text, name) => {
    expect(warningsOf(text)).toEqual([`providers[0].${name}: ${unfilled}`]);
  });

  test("that comes from the environment is taken as it is, whatever it looks like", () => {
    const given = { environment: { K: "$CANARY" } };
    const { warnings } = loadText(provider('api_key = "${K}"'), given);
    expect(warnings).not.toContainEqual(expect.stringContaining("looks like"));
    expect(warningsOf('api_key = "sk-$canary%x<1>"')).toEqual([]);
  });

  test.each(
    byProblem({
      "api_key_file: must not be set together with api_key: keep one of them":
        'api_key = "canary"\napi_key_file = "x"',
      "api_key: contains a blank or another character that is not valid in a key: copy the key again":
        ['api_key = "canary key"', 'api_key = "canary\\n"', 'api_key = "canarÿ"'],
      "api_key: must be a text in quotes": "api_key = 123",
      "api_key: must have at most 8192 characters": `api_key = "${"k".repeat(8193)}"`,
      "api_key_file: the file cannot be read: no such file (a relative path starts at the folder of the config)":
        'api_key_file = "sk-canary"',
      "api_key_file: the file cannot be read: it is a folder (a relative path starts at the folder of the config)":
        'api_key_file = "."',
      "api_key_file: the file is empty: write the key into it": 'api_key_file = "empty"',
      "api_key_file: contains a blank or another character that is not valid in a key: copy the key again":
        'api_key_file = "two"',
      "api_key_file: the file is larger than 1MB: use another file": 'api_key_file = "large"',
      "headers: must not contain authorization when api_key is set: keep one of them":
        'api_key = "canary"\nheaders = { Authorization = "Bearer canary" }',
    }),
  )("%.70j is refused, and not repeated", (lines, problem) => {
    const files = {
      empty: " \n",
      two: "canary one\ncanary two\n",
      large: "x".repeat(1024 ** 2 + 1),
    };
    expect(loadText(provider(lines), { files }).problems).toEqual([`providers[0].${problem}`]);
  });
});

describe("headers", () => {
  test("are read with their names in lower case", () => {
    const lines = 'headers = { "X-Team" = "a b", api-key = "${ONE_KEY}", x-empty = "" }';
    expect(providerOf(lines)?.headers).toEqual({
      "x-team": "a b",
      "api-key": "sk-one",
      "x-empty": "",
    });
  });
  test.each([
    ['"a b" = "v"', '."a b": is not a valid header name'],
    ['"" = "v"', '."": is not a valid header name'],
    ['"a:b" = "v"', '."a:b": is not a valid header name'],
    ['"a\\nb" = "v"', '."a\\nb": is not a valid header name'],
    ['"__proto__" = "v"', ".__proto__: is not a valid header name"],
    ['x-a = "canary\\r\\nx-b: c"', ".x-a: must have a value of printable ASCII on one line"],
    ['x-a = "канарейка"', ".x-a: must have a value of printable ASCII on one line"],
    ["x-a = 1", ".x-a: must be a text in quotes"],
    ['"a\\nb" = 1', '."a\\nb": must be a text in quotes'],
    ['x-a = "1", X-A = "2"', ".X-A: is set twice: header names ignore case"],
  ])("{ %s } is refused", (entries, problem) => {
    expect(problemsOf(`headers = { ${entries} }`)).toEqual([`providers[0].headers${problem}`]);
  });
  test.each(
    [
      ["Host", "Content-Length", "Connection", "Transfer-Encoding", "Content-Type", "Accept"],
      ["Accept-Encoding", "Content-Encoding", "TE", "Trailer", "Upgrade", "Expect", "Keep-Alive"],
      ["Proxy-Authorization", "Proxy-Connection", "X-Request-Id"],
    ].flat(),
  )("%s is the gateway's own", (name) => {
    expect(problemsOf(`headers = { ${name} = "v" }`)).toEqual([
      `providers[0].headers.${name}: is a header that the gateway sets: remove it`,
    ]);
  });
  test("are at most 64", () => {
    const entries = (count: number) =>
      Array.from({ length: count }, (_, index) => `x-${index} = "v"`).join(", ");
    expect(problemsOf(`headers = { ${entries(64)} }`)).toEqual([]);
    expect(problemsOf(`headers = { ${entries(65)} }`)).toEqual([
      "providers[0].headers: must have at most 64 entries",
    ]);
  });
  test("are a table", () => {
    expect(problemsOf('headers = "x: y"')).toEqual([
      'providers[0].headers: must be a table, such as { "x-team" = "search" }',
    ]);
  });
});
