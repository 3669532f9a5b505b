import { hostsOverlap, isLoopback, type Listen } from "./address.ts";
import { readHeaders } from "./credential.ts";
import { readDatabase, readRedis } from "./database.ts";
import type { Inspection } from "./inspection.ts";
import { networkAround, parseNetwork } from "./network.ts";
import { readNotify } from "./notify.ts";
import {
  choice,
  choices,
  duration,
  flag,
  headers,
  names,
  readTable,
  secret,
  size,
  text,
  wholeNumber,
  type Table,
} from "./option.ts";
import { BILLION, MODEL_TOKENS_MAX } from "./prices.ts";
import { readListen, readPage, readServer } from "./server.ts";
import { baseOf, isUnencrypted, readServerUrl } from "./serverUrl.ts";
import type { TlsConfig } from "./tls.ts";

/** The highest limits, by the config or for one key. */
export const LIMITS_MAX = {
  requestsPerMinute: BILLION,
  tokensPerMinute: 1000 * BILLION,
  concurrentRequests: 1_000_000,
} as const;

/** The most inputs: `lib/untrustedJson.ts` refuses a body with 65,536 different short texts. */
const EMBEDDING_INPUTS_MAX = 50_000;

/** Fields that every request needs, so that they cannot be refused. */
const REQUEST_FIELDS_NEEDED: ReadonlySet<string> = new Set(["model", "messages", "input"]);

export const apiOptions = {
  unknownFields: choice("unknown_fields", ["forward", "reject"], {
    default: "forward",
    doc: 'Request fields that the gateway does not know: "forward" sends them to the provider, "reject" answers 400.',
  }),
  usageChunk: choice("usage_chunk", ["finish", "own"], {
    default: "finish",
    doc: 'Which chunk of a chat stream has the usage, if the client asked for it. "finish": the chunk with the finish_reason. "own": a chunk after it, without choices. That is OpenAI\'s form; openai-java\'s accumulator and AutoGen need it.',
  }),
  refusedFields: names("refused_fields", {
    default: ["models", "route", "provider"],
    check: (name) =>
      REQUEST_FIELDS_NEEDED.has(name) ? "names a field that requests require" : undefined,
    doc: 'Fields that are always refused with 400, because they can change the provider or the model. Add such fields of your providers, for example "preset" and "fallbacks".',
  }),
  refusedTools: names("refused_tools", {
    doc: 'Types of tools that are refused with 400, for example "mcp" and "web_search".',
  }),
  /** Names of extras (`contract/extras.ts`): tools and fields. */
  allowedTools: names("allowed_tools", {
    doc: 'What you give away. Tools and fields that may cost more than tokens, such as "image_generation" and "modalities", are refused with 400 unless they are named here; clients pay only the tokens then. docs/reference/calls.md lists them.',
  }),
  /** In lower case. */
  refusedBetas: names("refused_betas", {
    default: ["context-1m-2025-08-07"],
    doc: "Values of the header `anthropic-beta`, in any case, that are refused with 400 at /v1/messages. The first one makes some models charge more for a long prompt than the configured price.",
  }),
  extraReasoningEfforts: choices("extra_reasoning_efforts", ["none", "minimal", "max"], {
    form: 'a list of "none", "minimal" and "max"',
    doc: 'Values of `reasoning_effort` that chats may have besides low, medium, high and xhigh: "none", "minimal" and "max".',
  }),
  sharedObjects: names("shared_objects", {
    doc: "Ids of objects stored at a provider (files, prompts, ...) that every account may use.",
  }),
  maxEmbeddingInputs: wholeNumber("max_embedding_inputs", {
    default: 2048,
    min: 1,
    max: EMBEDDING_INPUTS_MAX,
    doc: "The most texts or token arrays of one request to /v1/embeddings, 1 to 50000.",
  }),
} as const;

export const billingOptions = {
  minOutputTokens: wholeNumber("min_output_tokens", {
    default: 16,
    min: 1,
    max: MODEL_TOKENS_MAX,
    doc: "A chat without a bound may be cut to what the balance pays. If that is fewer tokens than this, the answer is 402.",
  }),
  holdWaitMs: duration("hold_wait", {
    default: "2s",
    max: "5m",
    doc: 'How long a request waits for money that other open requests of the account hold. Then the answer is 429 with the code "balance_held". The answer is 402 at once if the money is spent while the request waits.',
  }),
  disconnectGraceMs: duration("disconnect_grace", {
    default: "2s",
    max: "10m",
    doc: "How long a provider may go on with a stream after the client disconnects. An answer whose rest is likely short gets four times as long. If no usage comes, what was generated until then is estimated and charged.",
  }),
} as const;

export const routingOptions = {
  affinity: choice("affinity", ["session", "none"], {
    default: "session",
    doc: 'How one of several routes with equal priority is chosen. "session": the requests of a conversation take the same one, so that the provider\'s cache of the prompt serves them. "none": each request draws one. Weights have the same effect with both.',
  }),
} as const;

export const limitsOptions = {
  requestsPerMinute: wholeNumber("requests_per_minute", {
    default: 600,
    max: LIMITS_MAX.requestsPerMinute,
    doc: "This limit and the next two apply to each key, unless the key has its own. 0 = no limit.",
  }),
  tokensPerMinute: wholeNumber("tokens_per_minute", {
    default: 0,
    max: LIMITS_MAX.tokensPerMinute,
    doc: "Prompt and completion tokens of one key. The prompt is estimated first, and corrected by the usage. 0 = no limit.",
  }),
  concurrentRequests: wholeNumber("concurrent_requests", {
    default: 64,
    max: LIMITS_MAX.concurrentRequests,
    doc: "Requests of one key at the same time. 0 = no limit.",
  }),
  bodyBytesPerMinute: size("body_bytes_per_minute", {
    default: "120MB",
    max: "1000GB",
    doc: 'The bytes of all request bodies of a key in a minute, such as "512MB". Each gateway counts for itself. "0B" = no limit.',
  }),
  connectionsPerAddress: wholeNumber("connections_per_address", {
    default: 1000,
    max: LIMITS_MAX.concurrentRequests,
    doc: "Connections of one address, or of one /64 network of IPv6: idle ones above it are closed. It does not count for this machine and trusted_proxies. 0 = no limit but half of what the limit of open files allows.",
  }),
  failedKeysPerMinute: wholeNumber("failed_keys_per_minute", {
    default: 60,
    max: BILLION,
    doc: "Invalid keys from one address, or from one /64 network of IPv6. A valid key is never refused by this limit, and neither is this machine.",
  }),
  trustedProxies: names("trusted_proxies", {
    check: proxyProblem,
    doc: 'Proxies whose X-Forwarded-For is trusted: IP addresses and networks, such as "10.0.0.5", "172.16.0.0/12" or "fd00::/8".',
  }),
  redis: secret("redis", {
    serveOnly: true,
    restart: ({ redis }: { redis: { url: string } | undefined }) => redis?.url,
    doc: 'A Redis or Valkey server that counts the limits for all gateways on one PostgreSQL database, such as "redis://:PASSWORD@HOST:6379" (rediss:// encrypts), or a file that contains the URL. "": each gateway allows its share. A change needs a restart.',
  }),
} as const;

export const logOptions = {
  level: choice("level", ["debug", "info", "warn", "error", "silent"], {
    default: "info",
    restart: true,
    doc: '"debug" (also logs each attempt at a route), "info", "warn", "error" or "silent".',
  }),
  format: choice("format", ["json", "pretty"], {
    default: "json",
    restart: true,
    doc: '"json": one line for each request. "pretty": for a terminal.',
  }),
  addresses: flag("addresses", {
    default: true,
    doc: "Whether the line of each request has the client's address and user agent, and the first and last address of each key is recorded.",
  }),
} as const;

export const metricsOptions = {
  listen: text("listen", {
    form: 'an address in quotes, such as "127.0.0.1:9090"',
    example: '"127.0.0.1:9090"',
    restart: true,
    inUnit: true,
    doc: "The address of that listener. The form is that of server.listen.",
  }),
} as const;

export const telemetryOptions = {
  otlp: text("otlp", {
    default: "",
    form: 'an address in quotes, such as "http://127.0.0.1:4318"',
    example: '"http://127.0.0.1:4318"',
    restart: true,
    doc: "The collector's address for OTLP over HTTP. The gateway adds /v1/traces.",
  }),
  headers: headers("headers", {
    serveOnly: true,
    restart: (telemetry: TelemetryConfig | undefined) => telemetry?.headers ?? {},
    doc: 'Headers for a collector that wants a key, such as { authorization = "Bearer ${OTLP_KEY}" }. A change needs a restart.',
  }),
} as const;

/** The tables of the config file that are no lists. */
export type SettingsTables = Readonly<
  Record<
    | "server"
    | "page"
    | "database"
    | "api"
    | "billing"
    | "routing"
    | "limits"
    | "log"
    | "metrics"
    | "telemetry"
    | "notify",
    Table
  >
>;

/** The config without providers and models. */
export type Settings = ReturnType<typeof readSettings>;

/** Reads every section but the providers and models. Problems go to the inspection. */
export function readSettings(tables: SettingsTables, inspection: Inspection) {
  const settings = {
    server: readServer(tables.server, inspection),
    page: readPage(tables.page, inspection),
    database: readDatabase(tables.database, inspection),
    api: readApi(tables.api, inspection),
    billing: readTable(billingOptions, tables.billing, "billing", inspection),
    routing: readTable(routingOptions, tables.routing, "routing", inspection),
    limits: readLimits(tables.limits, inspection),
    log: readTable(logOptions, tables.log, "log", inspection),
    metrics: readMetrics(tables.metrics, inspection),
    telemetry: readTelemetry(tables.telemetry, inspection),
    notify: readNotify(tables.notify, inspection),
  } as const;
  warnAboutListening(settings, inspection);
  if (settings.limits.redis !== undefined && settings.database.engine === "sqlite")
    inspection.problem(
      "limits.redis",
      "needs [database] url: one gateway with a SQLite file counts its limits in memory; remove it",
    );
  return settings;
}

function readApi(table: Table, inspection: Inspection) {
  const values = readTable(apiOptions, table, "api", inspection);
  return {
    ...values,
    refusedBetas: values.refusedBetas.map((beta) => beta.toLowerCase()),
  } as const;
}

function readLimits(table: Table, inspection: Inspection) {
  const values = readTable(limitsOptions, table, "limits", inspection);
  return {
    ...values,
    trustedProxies: values.trustedProxies.flatMap((text) => parseNetwork(text) ?? []),
    redis: readRedis(values.redis, inspection),
  } as const;
}

function proxyProblem(text: string): string | undefined {
  const network = parseNetwork(text);
  if (network?.prefix === 0)
    return "must not be every address: the gateway could not tell a client from a proxy; list the networks of the proxies";
  if (network !== undefined) return undefined;
  const around = networkAround(text);
  return around === undefined
    ? 'must be an IP address or a network, such as "10.0.0.5", "10.0.0.0/8" or "fd00::/8" (not a name)'
    : `is not the first address of its network: write "${around}", or one address without a slash`;
}

function readMetrics(
  table: Table,
  inspection: Inspection,
): { readonly listen: Listen } | undefined {
  const { listen } = readTable(metricsOptions, table, "metrics", inspection);
  if (listen === undefined) return undefined;
  return { listen: readListen(inspection, "metrics.listen", listen) };
}

/** The trace collector: its base address, and headers that may be secrets. */
interface TelemetryConfig {
  /** http or https, without user, query, fragment or trailing slash. */
  readonly otlp: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Undefined if no traces are sent. */
function readTelemetry(table: Table, inspection: Inspection): TelemetryConfig | undefined {
  const { otlp, headers } = readTable(telemetryOptions, table, "telemetry", inspection);
  const checked = readHeaders(headers, "telemetry.headers", inspection);
  if (otlp === "") {
    if (Object.keys(checked).length > 0)
      inspection.problem("telemetry.headers", "requires otlp: set it, or remove the headers");
    return undefined;
  }
  const key = "telemetry.otlp";
  const url = readServerUrl(otlp, key, "headers", inspection);
  if (url === undefined) return undefined;
  if (/\/v1\/traces\/*$/.test(url.pathname))
    inspection.problem(key, "must not include /v1/traces: the gateway adds it");
  if (isUnencrypted(url)) {
    inspection.warning(
      key,
      "is http:// to a public address: the headers and all spans are sent unencrypted",
    );
  }
  return { otlp: baseOf(url), headers: checked };
}

function warnAboutListening(
  {
    server,
    metrics,
  }: {
    readonly server: { readonly listen: Listen; readonly tls: TlsConfig | undefined };
    readonly metrics: { readonly listen: Listen } | undefined;
  },
  inspection: Inspection,
): void {
  if (isPublic(server.listen) && server.tls === undefined) {
    inspection.warning(
      "server.listen",
      "listens on the network without TLS, so keys are sent unencrypted; set tls_cert and tls_key, or use a TLS proxy in front",
    );
  }
  if (metrics === undefined) return;
  if (isPublic(metrics.listen)) {
    inspection.warning("metrics.listen", "serves the metrics to other machines without a key");
  }
  if (sameAddress(server.listen, metrics.listen)) {
    inspection.problem(
      "metrics.listen",
      "must differ from server.listen, and use another port if one of them listens on every address",
    );
  }
}

function isPublic(listen: Listen): boolean {
  return listen.kind === "tcp" && !isLoopback(listen.host);
}

function sameAddress(one: Listen, other: Listen): boolean {
  if (one.kind === "unix" || other.kind === "unix") {
    return one.kind === "unix" && other.kind === "unix" && one.path === other.path;
  }
  return one.port !== 0 && one.port === other.port && hostsOverlap(one.host, other.host);
}
