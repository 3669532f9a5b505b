import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import {
  byProblem,
  configOf,
  inScratchFolder,
  loadText,
  key,
  problemsOf,
  provider,
  providerOf,
  warningsOf,
} from "./loadText.ts";
import type { ProviderConfig } from "../../src/config/schema.ts";
import { makeCertificate } from "./makeCertificate.ts";

describe("id", () => {
  test.each(["a", "openai", "Open.AI_2-x", "0", "-a", ".a", "_a", "a".repeat(64)])(
    "%s is accepted",
    (id) => {
      const text = `[[providers]]\nid = "${id}"\nbase_url = "http://localhost"`;
      expect(configOf(text).providers[0]?.id).toBe(id);
    },
  );
  test.each(["", "a b", "a/b", "é", "a\\n", "a".repeat(65)])("%j is refused", (id) => {
    const text = `[[providers]]\nid = "${id}"\nbase_url = "http://localhost"`;
    expect(loadText(text).problems).toEqual([
      "providers[0].id: must be 1 to 64 letters, digits, dots, underscores or hyphens",
    ]);
  });
  test("stands once; one that came from the environment is not repeated in the problem", () => {
    const text = provider(key) + provider(key).replace('"one"', '"${ID}"') + provider(key);
    expect(loadText(text, { environment: { ID: "one" } }).problems).toEqual([
      "providers[1].id: (from the environment) is already the id of providers[0]",
      'providers[2].id: "one" is already the id of providers[0]',
    ]);
  });
});

describe("kind", () => {
  test("openai is the default", () =>
    expect(providerOf(`${key}\nkind = "openai"`)).toEqual(providerOf(key)));
  test.each(["anthropic", "gemini"] as const)("%s is available", (kind) =>
    expect(providerOf(`${key}\nkind = "${kind}"`)).toEqual({
      ...providerOf(key),
      kind,
    } as ProviderConfig),
  );
  test("any other is refused", () => {
    expect(problemsOf('kind = "OpenAI"')).toEqual([
      'providers[0].kind: must be one of: "openai", "anthropic", "gemini"',
    ]);
  });
});

describe("base_url", () => {
  test.each([
    ["https://api.openai.com/v1", "https://api.openai.com/v1"],
    ["https://api.openai.com/v1/", "https://api.openai.com/v1"],
    ["https://api.openai.com", "https://api.openai.com"],
    ["https://api.openai.com//", "https://api.openai.com"],
    ["HTTPS://API.example:443/V1", "https://api.example/V1"],
    ["http://[::1]:11434/v1", "http://[::1]:11434/v1"],
  ])("%s is read as %s", (text, url) => {
    expect(providerOf(key, text)?.baseUrl).toBe(url);
  });

  test.each(
    byProblem({
      "must be a URL that begins with https:// or http://": [
        "",
        "api.openai.com/v1",
        "ftp://one.example",
        "file:///etc/passwd",
        "https://",
        "https:one.example",
        "https://one.example:99999",
        "https://one.example/v1 ",
        "https://one.exa\nmple/v1",
        "https:\\\\one.example/v1",
      ],
      "must not contain a user or password: use api_key or headers": [
        "https://canary@one.example/v1",
        "https://:canary@one.example/v1",
      ],
      "must not contain a query (?) or fragment (#)": [
        "https://one.example/v1?key=canary",
        "https://one.example/v1?",
        "https://one.example/v1#canary",
      ],
      "must not include /chat/completions, /responses or /messages: the gateway adds them": [
        "https://one.example/v1/chat/completions",
        "https://one.example/v1/responses/",
        "https://one.example/v1/messages",
      ],
    }),
  )("%j is refused", (text, problem) => {
    expect(problemsOf(key, text)).toEqual([`providers[0].base_url: ${problem}`]);
  });

  describe.each([
    ["anthropic", "https://api.anthropic.com/v1"],
    ["gemini", "https://generativelanguage.googleapis.com/v1beta"],
  ])("of the kind %s, which ends in a version:", (kind, usual) => {
    test.each([
      ["https://one.example", 1],
      ["https://one.example/", 1],
      ["https://one.example/other", 1],
      ["https://one.example/v1beta/openai", 1],
      ["https://one.example/v1beta/models/", 1],
      [usual, 0],
      ["https://one.example/other/v2/", 0],
    ])("%s is warned of where it has none", (text, count) => {
      const warning = `providers[0].base_url: does not end in a version as ${usual} does; check it`;
      expect(warningsOf(`${key}\nkind = "${kind}"`, text)).toEqual(
        Array.from({ length: count }, () => warning),
      );
    });
  });

  test.each([
    "http://localhost:1",
    "http://a.localhost",
    "http://127.1.2.3",
    "http://[::1]",
    "http://10.255.0.1",
    "http://172.16.0.1",
    "http://172.31.9.9",
    "http://192.168.0.1",
    "http://100.64.0.1",
    "http://[fd00::1]",
    "http://[::ffff:10.0.0.1]",
    "http://ollama:11434",
    "http://host.docker.internal",
    "http://nas.local",
    "http://box.home.arpa",
    "https://one.example",
  ])("%s is not warned of", (text) => {
    expect(warningsOf(key, text)).toEqual([]);
  });

  test.each([
    "http://one.example",
    "http://8.8.8.8",
    "http://172.15.0.1",
    "http://172.32.0.1",
    "http://192.169.0.1",
    "http://100.63.0.1",
    "http://100.128.0.1",
    "http://11.0.0.1",
    "http://[2001:db8::1]",
    "http://[::ffff:8.8.8.8]",
    "http://10.0.0.1.example",
    "http://169.254.169.254",
  ])("%s is warned of", (text) => {
    expect(warningsOf(key, text)).toEqual([
      "providers[0].base_url: is http:// to a public address: the key and all texts are sent unencrypted",
    ]);
  });
});

describe("proxy", () => {
  test.each([
    ["", undefined],
    ["http://proxy.example:3128", "http://proxy.example:3128"],
    ["http://user:pa%24s@proxy.example:3128/", "http://user:pa%24s@proxy.example:3128"],
    ["http://us%C3%A9r:p@proxy.example:3128", "http://us%C3%A9r:p@proxy.example:3128"],
    ["https://proxy.example", "https://proxy.example"],
    ["HTTPS://token@proxy.example:8443", "https://token@proxy.example:8443"],
    ["socks5://127.0.0.1:1080", "socks5://127.0.0.1:1080"],
    ["socks5h://user:pa%24s@[::1]/", "socks5h://user:pa%24s@[::1]"],
  ])("%j", (text, url) => {
    expect(providerOf(`proxy = "${text}"`)?.proxyUrl).toBe(url);
  });

  const schemes = "must begin with http://, https://, socks5:// or socks5h://";
  const escapes = "write @ : / ? # % in a password as %40 %3A %2F %3F %23 %25";
  const whole = (scheme: string) =>
    `must be of the form "${scheme}://user:password@host:port" and nothing more; ${escapes}`;
  const url = (scheme: string) =>
    `must be a URL such as ${scheme}://user:password@host:port; ${escapes}`;
  const percent = "has a % in its user or password: write it as %25";
  const long = "x".repeat(256);
  test.each(
    byProblem({
      [schemes]: ["proxy.example:3128", "socks4://canary@proxy.example:1080"],
      [url("http")]: "http://proxy .example",
      [url("socks5")]: ["socks5://", "socks5://prox%79.example"],
      [url("socks5h")]: "socks5h://canary:1@:1080",
      [percent]: [
        "http://%zz:canary@proxy.example:1",
        "http://canary:100%@proxy.example:1",
        "socks5://canary:%ff@proxy.example:1",
      ],
      "must not have a : in its user": "http://can%3Aary:p@proxy.example:1",
      "must have a user and a password, or neither": "socks5://canary@proxy.example",
      "must have a user and a password of at most 255 bytes": `socks5h://canary:${long}@proxy.example`,
      [whole("http")]: "http://proxy.example/canary",
      [whole("https")]: "https://proxy.example?canary",
      [whole("socks5")]: "socks5://proxy.example#canary",
      [whole("socks5h")]: "socks5h://proxy.example/canary",
    }),
  )("%j is refused", (text, problem) => {
    expect(problemsOf(`proxy = "${text}"`)).toEqual([`providers[0].proxy: ${problem}`]);
  });
});

describe("ca_file", () => {
  test("is read as text", () => {
    inScratchFolder((folder) => {
      const pem = makeCertificate(folder, "ca.pem", "ca.key");
      const text = provider(`${key}\nca_file = "${join(folder, "ca.pem")}"`);
      expect(configOf(text).providers[0]?.ca).toBe(pem);
    });
  });
  test("holds a certificate", () => {
    expect(loadText(provider('ca_file = "a"'), { files: { a: "canary" } }).problems).toEqual([
      "providers[0].ca_file: the file is not a PEM certificate",
    ]);
  });
  test("exists", () => {
    expect(problemsOf('ca_file = "lost.pem"')).toEqual([
      "providers[0].ca_file: the file cannot be read: no such file (a relative path starts at the folder of the config)",
    ]);
  });
});

describe("max_tokens_field", () => {
  test.each(["max_tokens", "max_completion_tokens"])("%s is well known", (name) => {
    expect(providerOf(`max_tokens_field = "${name}"`)?.maxTokensField).toBe(name);
    expect(warningsOf(`${key}\nmax_tokens_field = "${name}"`)).not.toContainEqual(
      expect.stringContaining("max_tokens_field"),
    );
  });
  test("another is taken with a warning", () => {
    expect(providerOf('max_tokens_field = "max_token"')?.maxTokensField).toBe("max_token");
    expect(warningsOf(`${key}\nmax_tokens_field = "max_token"`)).toContain(
      "providers[0].max_tokens_field: is a name that few providers know; a provider that ignores it can answer with more tokens than are held",
    );
  });
  test.each(["", "max tokens", "0a", 'a\\"b', "a".repeat(65)])("%j is refused", (name) => {
    expect(problemsOf(`max_tokens_field = "${name}"`)).toEqual([
      'providers[0].max_tokens_field: must be the name of a field, such as "max_completion_tokens"',
    ]);
  });
});

describe("drop_message_fields", () => {
  test("is a list of names, in their order", () => {
    expect(providerOf('drop_message_fields = ["b", "a"]')?.dropMessageFields).toEqual(["b", "a"]);
  });
  test.each(["role", "content", "tool_calls", "tool_call_id", "name"])("never %s", (name) => {
    expect(problemsOf(`drop_message_fields = ["a", "${name}"]`)).toEqual([
      "providers[0].drop_message_fields[1]: names a field that messages require",
    ]);
  });
});

describe.each([
  ["bounds_reasoning = false", "openai", ["anthropic", "gemini"]],
  ["stream_usage = false", "openai", ["anthropic", "gemini"]],
  ['drop_message_fields = ["a"]', "openai", ["anthropic", "gemini"]],
  ['message_order = "strict"', "openai", ["anthropic", "gemini"]],
  ["automatic_cache = false", "anthropic", ["openai", "gemini"]],
])("%s", (line, only, others) => {
  test.each(others)("is nothing for the kind %s", (kind) => {
    const name = line.split(" ")[0];
    expect(problemsOf(`${line}\nkind = "${kind}"`)).toEqual([
      `providers[0].${name}: requires kind ${only}, and the kind of this provider is ${kind}`,
    ]);
  });
});

describe("accounts", () => {
  const accounts = (...items: readonly string[]) => `accounts = [${items.join(", ")}]`;
  const first = '{ id = "a", api_key = "sk-a" }';

  test("are a provider each, which shares all else", () => {
    const text = provider(
      accounts(
        first,
        '{ id = "b", api_key = "sk-b", weight = 3, max_concurrent = 0, base_url = "https://two.example/v1/", headers = { "X-Team" = "b" } }',
      ) +
        '\nmax_concurrent = 7\nrequests_per_minute = 60\nheaders = { "x-team" = "all" }\nidle_timeout = "9s"',
    );
    const shared = { provider: "one", idleTimeoutMs: 9000, requestsPerMinute: 60 };
    expect(configOf(text).providers).toMatchObject([
      {
        ...shared,
        id: "one/a",
        apiKey: "sk-a",
        weight: 1,
        maxConcurrent: 7,
        baseUrl: "https://one.example/v1",
        headers: { "x-team": "all" },
      },
      {
        ...shared,
        id: "one/b",
        apiKey: "sk-b",
        weight: 3,
        maxConcurrent: 0,
        baseUrl: "https://two.example/v1",
        headers: { "x-team": "b" },
      },
    ]);
  });

  test("may be tables, with keys from files", () => {
    const text = `${provider("")}[[providers.accounts]]\nid = "a"\napi_key_file = "a.key"\n`;
    expect(configOf(text, { files: { "a.key": "sk-file\n" } }).providers).toMatchObject([
      { id: "one/a", apiKey: "sk-file" },
    ]);
  });

  test.each([
    [accounts(first, first), 'accounts[1].id: "a" is already the id of providers[0].accounts[0]'],
    [
      accounts('{ id = "a/b", api_key = "k" }'),
      "accounts[0].id: must be 1 to 64 letters, digits, dots, underscores or hyphens",
    ],
    [
      accounts('{ api_key = "k" }'),
      "accounts[0].id: is required: a short name that you choose, in quotes",
    ],
    [
      accounts('{ id = "a", api_key = "k", weight = 0 }'),
      "accounts[0].weight: must be a whole number from 1 to 1000000",
    ],
    [
      accounts('{ id = "a", apikey = "k" }'),
      "accounts[0].apikey: unknown key; did you mean api_key?",
    ],
    [`${key}\n${accounts(first)}`, "api_key: belongs to no account: move it into an account"],
    [
      `headers = { authorization = "x" }\n${accounts(first)}`,
      "headers: must not contain authorization when api_key is set: keep one of them",
    ],
    [
      accounts('{ id = "a", api_key = "k", base_url = "https://one.example/v1/responses" }'),
      "accounts[0].base_url: must not include /chat/completions, /responses or /messages: the gateway adds them",
    ],
    ['accounts = "a"', "accounts: must be a list of tables: write [[providers.accounts]]"],
  ])("%j is refused", (lines, problem) =>
    expect(problemsOf(lines)).toEqual([`providers[0].${problem}`]),
  );

  test("without a key are warned of, each once", () => {
    expect(warningsOf(accounts(first, '{ id = "b" }'))).toEqual([
      "providers[0].accounts[1]: has no api_key and no header that can contain one; check it",
    ]);
  });
});

describe("a key that expires", () => {
  const command = 'api_key_command = ["print-token", "--for", "me"]';
  const gigachat = 'auth = "gigachat"';

  test.each([
    [command, { kind: "command", command: ["print-token", "--for", "me"], lifetimeMs: 600_000 }],
    [
      'api_key_command = ["/opt/token"]\napi_key_lifetime = "50m"',
      { kind: "command", command: ["/opt/token"], lifetimeMs: 3_000_000 },
    ],
    [
      `${gigachat}\n${key}`,
      {
        kind: "gigachat",
        scope: "GIGACHAT_API_PERS",
        tokenUrl: "https://ngw.devices.sberbank.ru:9443/api/v2/oauth",
      },
    ],
  ])("%j is accepted, with nothing to warn of", (lines, issuer) => {
    expect(providerOf(lines)?.issuer).toEqual(issuer as ProviderConfig["issuer"]);
    expect(warningsOf(lines)).toEqual([]);
  });

  test("a path of a command starts at the folder of the config", () => {
    const { issuer } = providerOf('api_key_command = ["bin/token"]') ?? {};
    expect(issuer?.kind === "command" && issuer.command[0]).toEndWith("/bin/token");
    expect(issuer?.kind === "command" && issuer.command[0]).toStartWith("/");
  });

  test("may be that of an account", () => {
    const accounts = `accounts = [{ id = "a", ${command} }, { id = "b", api_key = "k" }]`;
    expect(configOf(provider(accounts)).providers).toMatchObject([
      { id: "one/a", issuer: { kind: "command" } },
      { id: "one/b", issuer: undefined },
    ]);
    const logins = `${gigachat}\naccounts = [{ id = "a", api_key = "k" }, { id = "b", api_key = "l" }]`;
    expect(configOf(provider(logins)).providers).toMatchObject([
      { apiKey: "k", issuer: { kind: "gigachat" } },
      { apiKey: "l", issuer: { kind: "gigachat" } },
    ]);
  });

  test.each([
    [
      `${key}\n${command}`,
      "api_key_command: must not be set together with api_key: keep one of them",
    ],
    [
      `${command}\nheaders = { authorization = "x" }`,
      "headers: must not contain authorization when api_key is set: keep one of them",
    ],
    [
      `${gigachat}\n${command}`,
      "api_key_command: must not be set together with auth: keep one of them",
    ],
    [gigachat, "api_key: is required: the authorization key of GigaChat"],
    [
      `${gigachat}\naccounts = [{ id = "a" }]`,
      "accounts[0].api_key: is required: the authorization key of GigaChat",
    ],
    [
      `${command}\naccounts = [{ id = "a", api_key = "k" }]`,
      "api_key_command: belongs to no account: move it into an account",
    ],
    [
      `${key}\nscope = "GIGACHAT_API_B2B"`,
      'scope: requires auth = "gigachat": set it, or remove this key',
    ],
    [
      `${key}\n${gigachat}\ntoken_url = "sber"`,
      "token_url: must be a URL that begins with https:// or http://",
    ],
    [
      `${key}\n${gigachat}\nkind = "gemini"`,
      "auth: requires kind openai, and the kind of this provider is gemini",
    ],
    ['api_key_command = "gcloud auth"', 'api_key_command: must be a list, such as ["one", "two"]'],
    [
      'api_key_command = ["gcloud", ""]',
      "api_key_command[1]: must be a name without control characters",
    ],
    [
      `${command}\napi_key_lifetime = "0s"`,
      'api_key_lifetime: must be a duration in the form "500ms", "30s", "5m", "24h" or "90d", from 1s to 24h',
    ],
  ])("%j is refused", (lines, problem) =>
    expect(problemsOf(lines)).toEqual([`providers[0].${problem}`]),
  );
});
