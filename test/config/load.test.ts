import { describe, expect, test } from "bun:test";
import { mkdirSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ConfigError, checkEnvironment, loadConfig } from "../../src/config/load.ts";
import { nearest } from "../../src/lib/nearest.ts";
import { inScratchFolder, loadText, minimal, outcomeOf, withEnvironment } from "./loadText.ts";

describe("where the file is found", () => {
  test("the given path wins, then TOLLGATE_CONFIG, then ./config.toml", () => {
    inFolder((folder) => {
      for (const name of ["given", "named", "config"]) {
        writeFileSync(join(folder, `${name}.toml`), minimal);
      }
      const named = join(folder, "named.toml");
      withEnvironment({ ONE_KEY: "k", TOLLGATE_CONFIG: named }, () => {
        expect(loadConfig({ path: "given.toml" }).config.file).toBe(join(folder, "given.toml"));
        expect(loadConfig({}).config.file).toBe(named);
        expect(loadConfig({ path: undefined }).config.file).toBe(named);
      });
      for (const unset of ["", undefined]) {
        withEnvironment({ ONE_KEY: "k", TOLLGATE_CONFIG: unset }, () => {
          expect(loadConfig({}).config.file).toBe(join(folder, "config.toml"));
        });
      }
    });
  });

  test("a named file that does not exist is a problem, never a reason to take another", () => {
    inFolder((folder) => {
      writeFileSync(join(folder, "config.toml"), minimal);
      const lost = join(folder, "lost.toml");
      const problems = [
        `${lost}: cannot be read: no such file; \`tollgate init ${lost}\` creates it`,
      ];
      expect(outcomeOf(lost).problems).toEqual(problems);
      withEnvironment({ TOLLGATE_CONFIG: lost }, () => {
        expect(outcomeOf(undefined).problems).toEqual(problems);
      });
    });
  });

  test("with no file anywhere, one line says where it was looked for and what creates one", () => {
    inFolder(() => {
      withEnvironment({ TOLLGATE_CONFIG: undefined }, () => {
        expect(outcomeOf(undefined).problems).toEqual([
          "no config: neither ./config.toml nor /etc/tollgate/config.toml exists; `tollgate init` creates one, --config or TOLLGATE_CONFIG names another",
        ]);
      });
    });
  });

  test("a folder is not a config", () => {
    inFolder((folder) => {
      mkdirSync(join(folder, "config.toml"));
      const path = join(folder, "config.toml");
      expect(outcomeOf(path).problems).toEqual([`${path}: cannot be read: it is a folder`]);
    });
  });
});

describe("a file that is not TOML", () => {
  test.each([
    ["[server", 1, 2],
    ["a = 1\na = 2", 2, 1],
    ['\n\n  key "canary-1"', 3, 7],
    ['[[providers]]\napi_key = "canary-2', 2, 11],
    ['[[providers]]\napi_key = canary-3"', 2, 11],
    ['[[providers]]\napi_key = "canary-4" canary-5', 2, 22],
    ['[[providers]]\napi_key = "canary-6\\q"', 2, 21],
    ["api_key = 'canary-7\u0001'", 1, 20],
    ["list = [1, 2", 1, 13],
    ['canary-8 = 1979-99-99T00:00:00Z # "canary-9"', 1, 12],
  ])("%j is reported at line %i, column %i, without its text", (text, line, column) => {
    const { problems } = loadText(text);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toStartWith(`FOLDER/config.toml: line ${line}, column ${column}: `);
    expect(problems[0]).not.toContain("canary");
    expect(problems[0]).not.toContain("\n");
  });

  test.each(["log.level = warn", "server.shutdown_grace = 30s", "server.max_body = 20MB"])(
    "%s: the message mentions missing quotes",
    (text) => expect(loadText(text).problems[0]).toEndWith(" (write text in quotes)"),
  );

  test.each([
    "rub_input_per_1m = 25,000",
    "rub_input_per_1m = 25 000",
    "rub_input_per_1m = 10\u00a0000 # canary",
    "rub_input_per_1m = 10\u202f000",
    "max_output_tokens = 128k",
    "a = 25.000,5 # canary",
  ])("%s: the message says how to write a number", (text) =>
    expect(loadText(text).problems[0]).toEndWith(
      " (write a number with digits only, such as 25000)",
    ),
  );

  test("the error carries no cause that could print the lines around the fault", () => {
    inScratchFolder((folder) => {
      const path = join(folder, "config.toml");
      writeFileSync(path, 'api_key = "canary');
      const error = errorOf(() => loadConfig({ path }));
      expect(error).toBeInstanceOf(ConfigError);
      expect(Bun.inspect(error)).not.toContain("canary");
    });
  });

  test("bytes that are not UTF-8", () => {
    expect(loadText(new Uint8Array([0x61, 0xff])).problems).toEqual([
      "FOLDER/config.toml: is not UTF-8: save the file as UTF-8",
    ]);
  });

  test("a file beyond any sense", () => {
    expect(loadText("#".repeat(16 * 1024 ** 2 + 1)).problems).toEqual([
      "FOLDER/config.toml: is larger than 16MB",
    ]);
  });
});

test("all problems are reported at once, one line each, and are the error's message", () => {
  const text = `
[server]
listen = "8080"
max_body = 20
shutdown = "1s"
[metrics]
listen = 9090
[[providers]]
id = "one"
base_url = "ftp://one.example"
[[providers]]
id = "one"
base_ulr = "https://one.example/v1"
[[models]]
id = "small"
rub_input_per_1m = 1.5
[[models.routes]]
provider = "two"
`;
  const problems = [
    'metrics.listen: must be an address in quotes, such as "127.0.0.1:9090"',
    "models[0].max_output_tokens: is required: the true maximum of the provider, a whole number from 1 to 100000000",
    'models[0].routes[0].provider: no provider has the id "two"; add one under [[providers]]',
    "models[0].rub_input_per_1m: must be a whole number of thousandths of a rouble per 1,000,000 tokens (25 roubles are 25000) from 0 to 1000000000",
    "models[0].rub_output_per_1m: is required: a whole number of thousandths of a rouble per 1,000,000 tokens (25 roubles are 25000), or write free = true",
    "providers[0].base_url: must be a URL that begins with https:// or http://",
    "providers[1].base_ulr: unknown key; did you mean base_url?",
    'providers[1].base_url: is required: the address in quotes, such as "https://api.openai.com/v1"',
    'providers[1].id: "one" is already the id of providers[0]',
    'server.listen: must be "ADDRESS:PORT" ("0.0.0.0:8080" is every address of this machine) or "unix:/path"',
    'server.max_body: must be a size in quotes, such as "20MB"',
    "server.shutdown: unknown key; the keys here are listen, processes, max_body, tls_cert, tls_key, drain_delay, shutdown_grace, sse_keepalive, json_keepalive, cors_origins, page",
  ];
  expect(loadText(text).problems).toEqual(problems);
  expect(new ConfigError(problems).message).toBe(problems.join("\n"));
});

describe("unknown keys", () => {
  test.each([
    ["__proto__ = 1", "__proto__"],
    ["[__proto__]\nlisten = 1", "__proto__"],
    ["constructor = 1", "constructor"],
    ["toString.a = 1", "toString"],
    ["[server.__proto__]\na = 1", "server.__proto__"],
    ['[[models]]\n"a b" = 1', 'models[0]."a b"'],
    ['"a\\nb\\u001b\\u202e" = 1', '"a\\nb\\u001b?"'],
  ])("%j is refused by its name", (text, key) => {
    const starts = loadText(text).problems.map((problem) => problem.split(": unknown key; ")[0]);
    expect(starts).toContain(key);
  });

  test("a very long one is cut", () => {
    const [problem = ""] = loadText(`${"k".repeat(5000)} = 1`).problems;
    expect(problem).toStartWith(`"${"k".repeat(64)}...": unknown key`);
  });
});

test.each(["", 'id = ""'])(
  "an id that is none (%j) is not guessed for a route's provider",
  (id) => {
    const text = minimal.replace(/^id = .*$/m, id).replace(/^provider = .*$/m, 'provider = "x"');
    expect(loadText(text).problems).toContain(
      'models[0].routes[0].provider: no provider has the id "x"; add one under [[providers]]',
    );
  },
);

describe("a single table where a list of them belongs, and the reverse", () => {
  test.each([
    ["[providers]", "providers: must be a list of tables: write [[providers]]"],
    ["[models]", "models: must be a list of tables: write [[models]]"],
    ["[[server]]", "server: must be a table: write [server]"],
    ["server = 2020-01-01", "server: must be a table: write [server]"],
    ['providers = ["one"]', "providers[0]: must be a table"],
    [
      `${minimal}[[models]]\nid="b"\nfree=true\nmax_output_tokens=1\n[models.routes]\nprovider="one"`,
      "models[1].routes: must be at least one route: write [[models.routes]]",
    ],
  ])("%j", (text, problem) => {
    expect(loadText(text).problems).toEqual([problem]);
  });
});

describe("a file that others can read", () => {
  const secrets = `
[[providers]]
id = "one"
base_url = "https://one.example/v1"
api_key = "sk-canary"
proxy = "http://user:canary@proxy.example:3128"
headers = { "X-Api-Key" = "canary", "x-team" = "plain" }
`;
  test.each([0o640, 0o604, 0o644, 0o660, 0o620])("mode %o with secrets in it", (mode) => {
    expect(loadText(secrets, { mode }).warnings).toContain(
      "FOLDER/config.toml: is readable by other users and contains providers[0].api_key, providers[0].headers.X-Api-Key, providers[0].proxy: chmod 600 it, or use ${NAME} or a file (api_key_file or another key that ends with _file)",
    );
  });
  const about = "is readable by other users";
  test("is fine when it is the owner's alone", () => {
    expect(loadText(secrets, { mode: 0o600 }).warnings.join()).not.toContain(about);
  });
  test("is fine when its secrets come from the environment", () => {
    const text = secrets.replaceAll(/(?:sk-)?canary/g, "${CANARY}");
    const { config, warnings } = loadText(text, { mode: 0o644, environment: { CANARY: "secret" } });
    expect(config?.providers[0]?.apiKey).toBe("secret");
    expect(warnings.join()).not.toContain(about);
  });
});

test("a config that can serve nothing loads, for the commands that need only the database", () => {
  const { config, warnings } = loadText("");
  expect(config?.models).toEqual([]);
  expect(warnings).toEqual(["FOLDER/config.toml: has no [[models]]: no request can be served"]);
});

describe("the environment that the runtime itself reads", () => {
  const harmless = { NODE_TLS_REJECT_UNAUTHORIZED: undefined, BUN_OPTIONS: undefined };
  const problemsWith = (variables: Readonly<Record<string, string>>) =>
    withEnvironment({ ...harmless, ...variables }, () => errorOf(checkEnvironment));

  test.each([{}, { NODE_TLS_REJECT_UNAUTHORIZED: "1" }, { BUN_OPTIONS: "" }])(
    "%j is accepted",
    (variables: Readonly<Record<string, string>>) => {
      expect(problemsWith(variables)).toBeUndefined();
    },
  );

  test("switched-off verification and slipped-in options are refused, both at once", () => {
    const error = problemsWith({ NODE_TLS_REJECT_UNAUTHORIZED: "0", BUN_OPTIONS: "--preload x" });
    expect(error).toBeInstanceOf(ConfigError);
    expect(error).toHaveProperty("problems", [
      "NODE_TLS_REJECT_UNAUTHORIZED: 0 accepts any certificate; unset it, and set ca_file for a provider with a private certificate authority",
      "BUN_OPTIONS: it can run other code inside this program; unset it",
    ]);
  });
});

describe("the suggestion for an unknown key", () => {
  const keys = ["base_url", "api_key", "api_key_file", "id", "kind", "weight"];

  test.each([
    ["base_ulr", "base_url"],
    ["baseurl", "base_url"],
    ["base_uri", "base_url"],
    ["API_KEY", "api_key"],
    ["apikey", "api_key"],
    ["Id", "id"],
    ["kidn", "kind"],
    ["wieght", "weight"],
    ["x", undefined],
    ["model", undefined],
    ["", undefined],
    ["base", undefined],
    ["base_url".repeat(1000), undefined],
  ])("the key that is closest to %.20s is %s", (word, meant) => {
    expect(nearest(word, keys)).toBe(meant);
  });

  test("no key is close where there are none", () => expect(nearest("a", [])).toBeUndefined());
});

test("commands that only need the database load a config without its secrets", () => {
  const unset = minimal
    .replace("ONE_KEY", "TOLLGATE_TEST_UNSET")
    .replace(
      "[[providers]]",
      '[server]\ntls_cert = "/nowhere/cert.pem"\ntls_key = "/nowhere/key.pem"\n[[providers]]',
    )
    .replace(
      "[[models]]",
      '[[providers]]\nid = "two"\nbase_url = "https://two.example"\nauth = "gigachat"\naccounts = [{ id = "a", api_key = "${TOLLGATE_TEST_UNSET}" }]\n[[models]]',
    );
  inScratchFolder((folder) => {
    const path = join(folder, "config.toml");
    writeFileSync(path, unset, { mode: 0o600 });
    expect(() => loadConfig({ path })).toThrow(ConfigError);
    const { config } = loadConfig({ path, secrets: "unread" });
    expect(config.models.map(({ id }) => id)).toEqual(["small"]);
    expect(config.providers[0]?.apiKey).toBeUndefined();
    writeFileSync(path, unset.replace("max_output_tokens = 100", "max_output_tokens = 0"));
    expect(() => loadConfig({ path, secrets: "unread" })).toThrow("max_output_tokens");
  });
});

function errorOf(run: () => unknown): unknown {
  try {
    run();
    return undefined;
  } catch (error) {
    return error;
  }
}

function inFolder(use: (folder: string) => void): void {
  const before = process.cwd();
  inScratchFolder((folder) => {
    process.chdir(folder);
    try {
      use(realpathSync(folder));
    } finally {
      process.chdir(before);
    }
  });
}

describe("the proxy variables of the environment", () => {
  const noticed = `[notify]\nwebhook = "https://h.example"\nsecret = "whsec_${"A".repeat(32)}"\n`;
  const text = "set in the environment and not used: set";
  const advice = (keys: string, name: string) =>
    `${keys} to use a proxy, for example proxy = "\${${name}}"`;
  const proxied = minimal.replace("api_key", 'proxy = "http://p.example:1"\napi_key');
  test.each<[string, Readonly<Record<string, string>>, string | undefined]>([
    [minimal, {}, undefined],
    [minimal, { HTTPS_PROXY: "", NO_PROXY: "canary" }, undefined],
    [proxied, { HTTPS_PROXY: "http://canary" }, undefined],
    [
      minimal,
      { HTTPS_PROXY: "http://u:canary@p:1", all_proxy: "canary" },
      `HTTPS_PROXY, all_proxy: ${text} ${advice("providers[0].proxy", "HTTPS_PROXY")}`,
    ],
    [
      noticed + minimal,
      { http_proxy: "http://u:canary@p:1" },
      `http_proxy: ${text} ${advice("providers[0].proxy, notify.proxy", "http_proxy")}`,
    ],
    [
      noticed + proxied,
      { HTTP_PROXY: "http://canary" },
      `HTTP_PROXY: ${text} ${advice("notify.proxy", "HTTP_PROXY")}`,
    ],
  ])("are warned of where they are not used (%#)", (config, environment, warning) => {
    const { problems, warnings } = loadText(config, { environment });
    expect(problems).toEqual([]);
    expect(warnings).toEqual(warning === undefined ? [] : [warning]);
  });
});
