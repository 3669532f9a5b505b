import { Type } from "@sinclair/typebox";
import type { Static, TProperties } from "@sinclair/typebox";

export type ProviderKind = "openai" | "anthropic" | "gemini";
export type ChatApi = "chat" | "responses";

/** The highest price and the highest rate. */
const BILLION = 1_000_000_000;

/** The highest limits, by the config or for one key. */
export const LIMITS_MAX = {
  requestsPerMinute: BILLION,
  tokensPerMinute: 1000 * BILLION,
  concurrentRequests: 1_000_000,
} as const;

/**
 * The most tokens that a model may be said to read or write. At the highest price a hold of that many, for
 * eight choices and a prompt as long, is 9e17 nano-roubles: far inside a signed 64-bit number.
 */
const MODEL_TOKENS_MAX = 100_000_000;

// Each description completes the sentence "must be ...": it is what the operator reads about a wrong value.
// Whole numbers are bigint because only so does the TOML reader tell 25.0 from 25.
const text = (description = "a text in quotes") => Type.String({ description, maxLength: 8192 });
const duration = () => text('a duration in quotes, such as "30s"');
const size = () => text('a size in quotes, such as "20MB"');
const flag = () => Type.Boolean({ description: "true or false, without quotes" });
const wholeNumber = (minimum: number, maximum: number, what = "a whole number") =>
  Type.BigInt({
    minimum: BigInt(minimum),
    maximum: BigInt(maximum),
    description: `${what} from ${minimum} to ${maximum}`,
  });
const price = () =>
  wholeNumber(
    0,
    BILLION,
    "a whole number of thousandths of a rouble per 1,000,000 tokens (25 roubles are 25000)",
  );
const choice = <const Values extends readonly string[]>(...values: Values) =>
  Type.Union(
    values.map((value) => Type.Literal<Values[number]>(value)),
    { description: `one of: ${values.map((value) => `"${value}"`).join(", ")}` },
  );
const texts = () =>
  Type.Array(text(), { description: 'a list, such as ["one", "two"]', maxItems: 1000 });
const table = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false, description: "a table" });

const RouteFile = table({
  provider: text("the id of a provider, in quotes"),
  model: Type.Optional(text()),
  api: Type.Optional(choice("chat", "responses")),
  responses: Type.Optional(flag()),
  priority: Type.Optional(wholeNumber(0, 1_000_000)),
  weight: Type.Optional(wholeNumber(1, 1_000_000)),
  rub_cost_input_per_1m: Type.Optional(price()),
  rub_cost_output_per_1m: Type.Optional(price()),
});

const ModelFile = table({
  id: text("the model name that clients send, in quotes"),
  owned_by: Type.Optional(text()),
  rub_input_per_1m: Type.Optional(price()),
  rub_output_per_1m: Type.Optional(price()),
  rub_cached_input_per_1m: Type.Optional(price()),
  rub_cache_write_per_1m: Type.Optional(price()),
  free: Type.Optional(flag()),
  max_output_tokens: wholeNumber(
    1,
    MODEL_TOKENS_MAX,
    "the true maximum of the provider, a whole number",
  ),
  context_tokens: Type.Optional(wholeNumber(1, MODEL_TOKENS_MAX)),
  routes: Type.Array(RouteFile, {
    description: "at least one route: write [[models.routes]]",
    minItems: 1,
    maxItems: 100,
  }),
});

const ProviderFile = table({
  id: text("a short name that you choose, in quotes"),
  kind: Type.Optional(choice("openai", "anthropic", "gemini")),
  base_url: text('the address in quotes, such as "https://api.openai.com/v1"'),
  api_key: Type.Optional(text()),
  api_key_file: Type.Optional(text()),
  headers: Type.Optional(
    // The dot in a record's pattern stops at a line break, so names with one need the second rule.
    Type.Record(Type.String(), text(), {
      additionalProperties: text(),
      description: 'a table, such as { "x-team" = "search" }',
    }),
  ),
  proxy: Type.Optional(text()),
  ca_file: Type.Optional(text()),
  max_tokens_field: Type.Optional(text()),
  bounds_reasoning: Type.Optional(flag()),
  stream_usage: Type.Optional(flag()),
  drop_message_fields: Type.Optional(texts()),
  connect_timeout: Type.Optional(duration()),
  first_byte_timeout: Type.Optional(duration()),
  idle_timeout: Type.Optional(duration()),
  total_timeout: Type.Optional(duration()),
  max_concurrent: Type.Optional(wholeNumber(0, 1_000_000)),
});

/** The shape of the TOML file: types and plain ranges. What needs more than one value to judge is judged later. */
export const ConfigFile = table({
  server: Type.Optional(
    table({
      listen: Type.Optional(text('an address in quotes, such as "127.0.0.1:8080"')),
      max_body: Type.Optional(size()),
      tls_cert: Type.Optional(text()),
      tls_key: Type.Optional(text()),
      shutdown_grace: Type.Optional(duration()),
      sse_keepalive: Type.Optional(duration()),
    }),
  ),
  database: Type.Optional(
    table({
      path: Type.Optional(text()),
      keep_requests: Type.Optional(duration()),
      durability: Type.Optional(choice("power", "process")),
    }),
  ),
  api: Type.Optional(
    table({
      unknown_fields: Type.Optional(choice("forward", "reject")),
      usage_chunk: Type.Optional(choice("finish", "own")),
      refused_fields: Type.Optional(texts()),
      refused_tools: Type.Optional(texts()),
      shared_objects: Type.Optional(texts()),
    }),
  ),
  billing: Type.Optional(
    table({
      min_output_tokens: Type.Optional(wholeNumber(1, MODEL_TOKENS_MAX)),
      hold_wait: Type.Optional(duration()),
      disconnect_grace: Type.Optional(duration()),
    }),
  ),
  limits: Type.Optional(
    table({
      requests_per_minute: Type.Optional(wholeNumber(0, LIMITS_MAX.requestsPerMinute)),
      tokens_per_minute: Type.Optional(wholeNumber(0, LIMITS_MAX.tokensPerMinute)),
      concurrent_requests: Type.Optional(wholeNumber(0, LIMITS_MAX.concurrentRequests)),
      failed_keys_per_minute: Type.Optional(wholeNumber(0, BILLION)),
      trusted_proxies: Type.Optional(texts()),
    }),
  ),
  log: Type.Optional(
    table({
      level: Type.Optional(choice("debug", "info", "warn", "error", "silent")),
      format: Type.Optional(choice("json", "pretty")),
    }),
  ),
  metrics: Type.Optional(
    table({ listen: Type.Optional(text('an address in quotes, such as "127.0.0.1:9090"')) }),
  ),
  providers: Type.Optional(
    Type.Array(ProviderFile, {
      description: "a list of tables: write [[providers]]",
      maxItems: 1000,
    }),
  ),
  models: Type.Optional(
    Type.Array(ModelFile, { description: "a list of tables: write [[models]]", maxItems: 10_000 }),
  ),
});
export type ConfigFile = Static<typeof ConfigFile>;

/** Where a server listens. A unix socket's path is absolute. Port 0 lets the system choose. */
export type Listen =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** The files of a certificate and its key, and their texts as they were checked. */
export interface TlsConfig {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
}

/** The checked configuration: every default filled in, every path absolute, every number in the unit of its name. */
export interface Config {
  /** The absolute path of the file that it came from. */
  readonly file: string;
  readonly server: {
    readonly listen: Listen;
    readonly maxBodyBytes: number;
    readonly tls: TlsConfig | undefined;
    readonly shutdownGraceMs: number;
    /** 0 turns the comments of a quiet stream off. */
    readonly sseKeepaliveMs: number;
  };
  readonly database: {
    readonly path: string;
    readonly keepRequestsMs: number;
    readonly durability: "power" | "process";
  };
  readonly api: {
    readonly unknownFields: "forward" | "reject";
    readonly usageChunk: "finish" | "own";
    readonly refusedFields: readonly string[];
    /** Types of tools that no request may have. */
    readonly refusedTools: readonly string[];
    readonly sharedObjects: readonly string[];
  };
  readonly billing: {
    readonly minOutputTokens: number;
    readonly holdWaitMs: number;
    readonly disconnectGraceMs: number;
  };
  /** For each key unless the key says otherwise; 0 stands for no limit. */
  readonly limits: {
    readonly requestsPerMinute: number;
    readonly tokensPerMinute: number;
    readonly concurrentRequests: number;
    readonly failedKeysPerMinute: number;
    /** IP addresses in their shortest form. */
    readonly trustedProxies: readonly string[];
  };
  readonly log: {
    readonly level: "debug" | "info" | "warn" | "error" | "silent";
    readonly format: "json" | "pretty";
  };
  readonly metrics: { readonly listen: Listen } | undefined;
  readonly providers: readonly ProviderConfig[];
  readonly models: readonly ModelConfig[];
}

export interface ProviderConfig {
  readonly id: string;
  readonly kind: ProviderKind;
  /** http or https, with no user, query, fragment or trailing slash. */
  readonly baseUrl: string;
  /** A secret. Undefined for a provider that needs none or takes it in a header. */
  readonly apiKey: string | undefined;
  /** Extra request headers, names in lower case. Values may be secrets. */
  readonly headers: Readonly<Record<string, string>>;
  /** May hold a password. */
  readonly proxyUrl: string | undefined;
  /** The PEM text of a private certificate authority, not its file's name. */
  readonly ca: string | undefined;
  readonly maxTokensField: string;
  /** The bound of an answer counts the reasoning too; else all that a model may say is held. */
  readonly boundsReasoning: boolean;
  /** Usage may be asked for in a chat's stream. */
  readonly streamUsage: boolean;
  /** What the messages of a chat go without. */
  readonly dropMessageFields: readonly string[];
  readonly connectTimeoutMs: number;
  readonly firstByteTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly totalTimeoutMs: number;
  /** 0 stands for no limit. */
  readonly maxConcurrent: number;
}

export interface ModelConfig {
  readonly id: string;
  readonly ownedBy: string;
  readonly price: Price;
  readonly maxOutputTokens: number;
  readonly contextTokens: number;
  /** At least one, in the order of the file. */
  readonly routes: readonly RouteConfig[];
}

/** Nano-roubles for one token, which is the same number as thousandths of a rouble per 1,000,000 tokens. */
export interface Price {
  readonly input: bigint;
  readonly output: bigint;
  readonly cachedInput: bigint;
  readonly cacheWrite: bigint;
}

/** What the operator pays, in the unit of {@link Price}. */
export interface OperatorPrice {
  readonly input: bigint;
  readonly output: bigint;
}

export interface RouteConfig {
  /** The id of a provider that exists. */
  readonly provider: string;
  /** The provider's own name for the model. */
  readonly model: string;
  readonly api: ChatApi;
  readonly responses: boolean;
  /** Lower comes first. */
  readonly priority: number;
  /** At least 1. */
  readonly weight: number;
  readonly operatorPrice: OperatorPrice | undefined;
}
