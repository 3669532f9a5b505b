import { onePrice } from "../support/store/recordedRequest.ts";
import { describe, expect, test } from "bun:test";
import { byProblem, configOf, loadText, minimal } from "./loadText.ts";

const day = 86_400_000;

/** Prices and sales of the rare figures, of a model without their keys: 1 for input, 2 for output. */
const others = {
  price: {
    audioInput: 1n,
    cachedAudioInput: 1n,
    imageInput: 1n,
    audioOutput: 2n,
    imageOutput: 2n,
    imageToolText: 0n,
    imageToolInput: 0n,
    imageToolOutput: 0n,
    webSearchPreview: 0n,
    mapSearch: 0n,
    xPost: 0n,
    xProfile: 0n,
    fileSearch: 0n,
    attachmentSearch: 0n,
    codeSession: 0n,
    image: 0n,
  },
  sells: {
    audioInputTokens: false,
    cachedAudioTokens: false,
    imageInputTokens: false,
    audioOutputTokens: false,
    imageOutputTokens: false,
    imageToolTextTokens: false,
    imageToolInputTokens: false,
    imageToolOutputTokens: false,
    webSearchPreviews: false,
    mapSearches: false,
    xPosts: false,
    xProfiles: false,
    fileSearches: false,
    attachmentSearches: false,
    codeSessions: false,
    images: false,
  },
};
const exactOrigin =
  'must be one exact origin as browsers send it, such as "https://chat.example.com" or "http://localhost:3000": no *, no path, no slash at the end, lower case, and no usual port';

test("the shortest file gets every default", () => {
  const { file, ...config } = configOf(minimal);
  expect(config).toEqual({
    server: {
      listen: { kind: "tcp", host: "127.0.0.1", port: 8080 },
      processes: "auto",
      maxBodyBytes: 20 * 1024 ** 2,
      tls: undefined,
      drainDelayMs: 3000,
      shutdownGraceMs: 30_000,
      sseKeepaliveMs: 15_000,
      jsonKeepalive: true,
      corsOrigins: [],
      page: true,
    },
    page: { contact: undefined },
    database: {
      engine: "sqlite",
      path: file.replace("config.toml", "tollgate.db"),
      keepRequestsMs: 365 * day,
      durability: "power",
    },
    api: {
      unknownFields: "forward",
      refusedFields: ["models", "route", "provider"],
      refusedTools: [],
      allowedTools: [],
      refusedBetas: ["context-1m-2025-08-07"],
      sharedObjects: [],
      usageChunk: "finish",
      extraReasoningEfforts: [],
      maxEmbeddingInputs: 2048,
    },
    billing: { minOutputTokens: 16, holdWaitMs: 2000, disconnectGraceMs: 2000 },
    routing: { affinity: "session" },
    limits: {
      requestsPerMinute: 600,
      tokensPerMinute: 0,
      concurrentRequests: 64,
      bodyBytesPerMinute: 120 * 1024 * 1024,
      connectionsPerAddress: 1000,
      failedKeysPerMinute: 60,
      trustedProxies: [],
      redis: undefined,
    },
    log: { level: "info", format: "json", addresses: true },
    metrics: undefined,
    telemetry: undefined,
    notify: {
      webhook: undefined,
      secret: undefined,
      mail: undefined,
      emails: [],
      proxyUrl: undefined,
      ca: undefined,
      low: 0n,
      lowDays: 3,
      keyExpiresMs: 7 * day,
    },
    providers: [
      {
        id: "one",
        kind: "openai",
        baseUrl: "https://one.example/v1",
        apiKey: "sk-one",
        headers: {},
        proxyUrl: undefined,
        ca: undefined,
        maxTokensField: "max_tokens",
        boundsReasoning: true,
        streamUsage: true,
        dropFields: [],
        dropMessageFields: [],
        messageOrder: "client",
        automaticCache: true,
        connectTimeoutMs: 5000,
        firstByteTimeoutMs: 300_000,
        firstContentTimeoutMs: 0,
        idleTimeoutMs: 120_000,
        totalTimeoutMs: 600_000,
        maxConcurrent: 0,
        requestsPerMinute: 0,
        issuer: undefined,
        provider: "one",
        weight: 1,
        margin: undefined,
      },
    ],
    models: [
      {
        id: "small",
        kind: "chat",
        ownedBy: "one",
        aliases: [],
        schedule: [
          {
            fromMs: 0,
            prices: {
              ...onePrice({
                input: 1n,
                output: 2n,
                cachedInput: 1n,
                cacheWrite: 1n,
                cacheWrite1h: 1n,
                webSearch: 0n,
                ...others.price,
              }),
              sells: { cacheWrite1hTokens: false, webSearches: false, ...others.sells },
              vendor: undefined,
            },
          },
        ],
        maxOutputTokens: 100,
        contextTokens: 1000,
        reasoningEffort: false,
        isContextKnown: true,
        fallbacks: [],
        order: "weight",
        routes: [
          {
            provider: "one",
            model: "small",
            api: "chat",
            responses: false,
            priority: 1,
            weight: 1,
            tokensPerSecond: undefined,
            costs: undefined,
          },
        ],
      },
    ],
    plans: [],
  });
});

describe("lists of names", () => {
  const notFirst = {
    "10.0.0.5/8": "10.0.0.0/8",
    "172.31.255.255/12": "172.16.0.0/12",
    "::ffff:10.0.0.5/104": "10.0.0.0/8",
    "2001:db8:1:2:ff::1/63": "2001:db8:1:2::/63",
    "fd12::/7": "fc00::/7",
  };
  test.each([
    ...byProblem({
      "api.refused_fields[0]: names a field that requests require":
        'api.refused_fields = ["model"]',
      "api.refused_fields[1]: must be a name without control characters":
        'api.refused_fields = ["a", ""]',
      "api.refused_fields[1]: must be a text in quotes": 'api.refused_fields = ["a", 1]',
      'api.refused_fields: must be a list, such as ["one", "two"]': 'api.refused_fields = "a"',
      "api.shared_objects[0]: must be a name without control characters":
        'api.shared_objects = ["a\\nb"]',
      "api.shared_objects: must have at most 1000 items": [
        `api.shared_objects = [${'"a", '.repeat(1001)}]`,
      ],
      'limits.trusted_proxies[0]: must be an IP address or a network, such as "10.0.0.5", "10.0.0.0/8" or "fd00::/8" (not a name)':
        [
          "proxy",
          "10.0.0.0/33",
          "10.0.0.0/08",
          "10.0.0.0/",
          "10.0.0/8",
          "10.0.0.0/255.0.0.0",
          "10.0.0.0/8/8",
          "10.0.0.0/-1",
          "10.0.0.5:8080",
          "fd00::/129",
          "[fd00::]/8",
          "fe80::1%eth0",
          "::ffff:10.0.0.0/95",
          " 10.0.0.0/8",
        ].map((proxy) => `limits.trusted_proxies = ["${proxy}"]`),
      "limits.trusted_proxies[0]: must not be every address: the gateway could not tell a client from a proxy; list the networks of the proxies":
        ["0.0.0.0/0", "::/0", "::ffff:0.0.0.0/96"].map(
          (every) => `limits.trusted_proxies = ["${every}"]`,
        ),
      [`server.cors_origins[0]: ${exactOrigin}`]: [
        "*",
        "https://*",
        "https://*.example.com",
        "null",
        "chat.example.com",
        "//chat.example.com",
        "https://",
        "https://chat.example.com/",
        "https://chat.example.com/app",
        "https://chat.example.com?a",
        "https://chat.example.com:443",
        "https://user@chat.example.com",
        "https://Chat.example.com",
        "HTTPS://chat.example.com",
        "https://ж.example",
        "https://a.example, https://b.example",
        "https://chat.example.com:99999",
        "file:///tmp",
      ].map((origin) => `server.cors_origins = ["${origin}"]`),
    }),
    ...Object.entries(notFirst).map(
      ([written, first]) =>
        [
          `limits.trusted_proxies = ["${written}"]`,
          `limits.trusted_proxies[0]: is not the first address of its network: write "${first}", or one address without a slash`,
        ] as const,
    ),
  ])("%.60s", (text, problem) => {
    expect(loadText(`${text}\n${minimal}`).problems).toEqual([problem]);
  });

  test("are read in their order, addresses as networks, betas in lower case", () => {
    const config = configOf(`
api.refused_fields = []
api.refused_tools = ["image_generation", "web_search"]
api.allowed_tools = ["code_interpreter", "modalities"]
api.shared_objects = ["file-1", "vs_2"]
limits.trusted_proxies = ["10.0.0.5", "FD00:0:0::1", "::ffff:10.0.0.6", "172.16.0.0/12", "::ffff:10.0.0.0/104", "fd00::/8"]
api.refused_betas = ["Context-1M"]
server.cors_origins = ["https://chat.example.com", "http://[::1]:3000", "app://obsidian.md"]
${minimal}`);
    expect(config.server.corsOrigins).toEqual([
      "https://chat.example.com",
      "http://[::1]:3000",
      "app://obsidian.md",
    ]);
    expect(config.api.refusedFields).toEqual([]);
    expect(config.api.refusedTools).toEqual(["image_generation", "web_search"]);
    expect(config.api.allowedTools).toEqual(["code_interpreter", "modalities"]);
    expect(config.api.sharedObjects).toEqual(["file-1", "vs_2"]);
    expect(config.api.refusedBetas).toEqual(["context-1m"]);
    const zeros = Array<number>(14).fill(0);
    expect(config.limits.trustedProxies).toEqual([
      { bytes: [10, 0, 0, 5], prefix: 32 },
      { bytes: [0xfd, 0, ...zeros.slice(1), 1], prefix: 128 },
      { bytes: [10, 0, 0, 6], prefix: 32 },
      { bytes: [172, 16, 0, 0], prefix: 12 },
      { bytes: [10, 0, 0, 0], prefix: 8 },
      { bytes: [0xfd, 0, ...zeros], prefix: 8 },
    ]);
  });
});

describe("page.contact", () => {
  const contact = (text: string) => loadText(`page.contact = ${JSON.stringify(text)}\n${minimal}`);

  test.each([
    ["", undefined],
    ["https://example.com/buy?from=page#prices", "https://example.com/buy?from=page#prices"],
    ["http://10.0.0.5:8000/", "http://10.0.0.5:8000/"],
    ["https://t.me/seller", "https://t.me/seller"],
    ["HTTPS://Example.com", "https://example.com/"],
    [
      "https://магазин.example/купить",
      "https://xn--80aairftm.example/%D0%BA%D1%83%D0%BF%D0%B8%D1%82%D1%8C",
    ],
    ["mailto:sales@example.com", "mailto:sales@example.com"],
    ["mailto:sales@example.com?subject=More", "mailto:sales@example.com?subject=More"],
  ])("%s", (text, url) => {
    const { config, problems, warnings } = contact(text);
    expect(problems).toEqual([]);
    expect(warnings).toEqual([]);
    expect(config?.page.contact).toBe(url);
  });

  test.each([
    "javascript:alert(1)",
    "data:text/html,hello",
    "tg://resolve?domain=seller",
    "tel:+70000000000",
    "example.com/buy",
    "//example.com",
    "/buy",
    "@seller",
    "https://",
    "https:example.com",
    "https://a b.example",
    "https://example.com/\n",
    "mailto:",
    "mailto:sales",
    "mailto:a@b@example.com",
    "mailto:a b@example.com",
    " https://example.com",
  ])("refuses %j", (text) => {
    expect(contact(text).problems).toEqual([
      'page.contact: must be a link for key holders that begins with https:// or http://, or "mailto:" and an address, such as "https://example.com/buy" or "mailto:sales@example.com"',
    ]);
  });

  test("refuses a password, and does not repeat it", () => {
    expect(contact("https://seller:canary@example.com").problems).toEqual([
      "page.contact: must not contain a user or password: key holders see it",
    ]);
  });
});

describe("database.path", () => {
  test("may be absolute", () => {
    expect(configOf(`database.path = "/var/lib/t.db"\n${minimal}`).database).toMatchObject({
      path: "/var/lib/t.db",
    });
  });
  test.each(['""', '":memory:"', '"a\\u0000b"'])("%s is refused", (value) => {
    expect(loadText(`database.path = ${value}\n${minimal}`).problems).toEqual([
      "database.path: must be a file: balances must survive a restart",
    ]);
  });
});
