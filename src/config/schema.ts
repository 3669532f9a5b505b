import { Type } from "@sinclair/typebox";
import type { Static, TProperties } from "@sinclair/typebox";

export type ProviderKind = "openai" | "anthropic" | "gemini";
export type ChatApi = "chat" | "responses";
export type ModelKind = "chat" | "embedding";

/** The highest price and the highest rate. */
const BILLION = 1_000_000_000;

/** The highest limits, by the config or for one key. */
export const LIMITS_MAX = {
  requestsPerMinute: BILLION,
  tokensPerMinute: 1000 * BILLION,
  concurrentRequests: 1_000_000,
} as const;

/**
 * The highest token limit of a model. At the highest prices, a hold of this many prompt tokens, eight such choices and a
 * million web searches is 1.9e18 nano-roubles, which fits into a signed 64-bit integer.
 */
const MODEL_TOKENS_MAX = 100_000_000;

/** `lib/untrustedJson.ts` refuses a body with 65,536 different short texts. */
const EMBEDDING_INPUTS_MAX = 50_000;

// Each description completes the sentence "must be ..." in the message for a wrong value.
// Whole numbers are bigint because otherwise the TOML parser does not distinguish 25.0 from 25.
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
const searchPrice = () =>
  wholeNumber(
    0,
    BILLION,
    "a whole number of thousandths of a rouble per 1,000 searches (900 roubles are 900000)",
  );
const choice = <const Values extends readonly string[]>(...values: Values) =>
  Type.Union(
    values.map((value) => Type.Literal<Values[number]>(value)),
    { description: `one of: ${values.map((value) => `"${value}"`).join(", ")}` },
  );
const texts = () =>
  Type.Array(text(), { description: 'a list, such as ["one", "two"]', maxItems: 1000 });
/** A whole number or a decimal text. Decimals without quotes would be floating point. */
const roubles = () =>
  Type.Union([Type.BigInt(), text()], {
    description: 'roubles: a whole number, or a decimal text in quotes, such as "49.5"',
  });
const table = <Properties extends TProperties>(properties: Properties) =>
  Type.Object(properties, { additionalProperties: false, description: "a table" });

const headers = () =>
  // A record's pattern does not match names with a line break; additionalProperties does.
  Type.Record(Type.String(), text(), {
    additionalProperties: text(),
    description: 'a table, such as { "x-team" = "search" }',
  });

const RouteFile = table({
  provider: text("the id of a provider, in quotes"),
  model: Type.Optional(text()),
  api: Type.Optional(choice("chat", "responses")),
  responses: Type.Optional(flag()),
  priority: Type.Optional(wholeNumber(0, 1_000_000)),
  weight: Type.Optional(wholeNumber(1, 1_000_000)),
  tokens_per_second: Type.Optional(wholeNumber(1, 100_000)),
  rub_cost_input_per_1m: Type.Optional(price()),
  rub_cost_output_per_1m: Type.Optional(price()),
  rub_cost_cached_input_per_1m: Type.Optional(price()),
  rub_cost_cache_write_per_1m: Type.Optional(price()),
  rub_cost_cache_write_1h_per_1m: Type.Optional(price()),
  rub_cost_web_search_per_1k: Type.Optional(searchPrice()),
});

/** Required, but for chat models only, so `models.ts` checks that. */
export const MAX_OUTPUT_TOKENS = wholeNumber(
  1,
  MODEL_TOKENS_MAX,
  "the true maximum of the provider, a whole number",
);

const ModelFile = table({
  id: text("the model name that clients send, in quotes"),
  kind: Type.Optional(choice("chat", "embedding")),
  owned_by: Type.Optional(text()),
  rub_input_per_1m: Type.Optional(price()),
  rub_output_per_1m: Type.Optional(price()),
  rub_cached_input_per_1m: Type.Optional(price()),
  rub_cache_write_per_1m: Type.Optional(price()),
  rub_cache_write_1h_per_1m: Type.Optional(price()),
  rub_web_search_per_1k: Type.Optional(searchPrice()),
  free: Type.Optional(flag()),
  max_output_tokens: Type.Optional(MAX_OUTPUT_TOKENS),
  context_tokens: Type.Optional(wholeNumber(1, MODEL_TOKENS_MAX)),
  reasoning_effort: Type.Optional(flag()),
  fallbacks: Type.Optional(texts()),
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
  headers: Type.Optional(headers()),
  proxy: Type.Optional(text()),
  ca_file: Type.Optional(text()),
  max_tokens_field: Type.Optional(text()),
  bounds_reasoning: Type.Optional(flag()),
  stream_usage: Type.Optional(flag()),
  drop_fields: Type.Optional(texts()),
  drop_message_fields: Type.Optional(texts()),
  message_order: Type.Optional(choice("client", "strict")),
  automatic_cache: Type.Optional(flag()),
  connect_timeout: Type.Optional(duration()),
  first_byte_timeout: Type.Optional(duration()),
  first_content_timeout: Type.Optional(duration()),
  idle_timeout: Type.Optional(duration()),
  total_timeout: Type.Optional(duration()),
  max_concurrent: Type.Optional(wholeNumber(0, 1_000_000)),
});

/** The TOML file: types and ranges of single values. */
export const ConfigFile = table({
  server: Type.Optional(
    table({
      listen: Type.Optional(text('an address in quotes, such as "127.0.0.1:8080"')),
      max_body: Type.Optional(size()),
      tls_cert: Type.Optional(text()),
      tls_key: Type.Optional(text()),
      drain_delay: Type.Optional(duration()),
      shutdown_grace: Type.Optional(duration()),
      sse_keepalive: Type.Optional(duration()),
      json_keepalive: Type.Optional(flag()),
      cors_origins: Type.Optional(texts()),
      page: Type.Optional(flag()),
    }),
  ),
  page: Type.Optional(
    table({
      contact: Type.Optional(text('an address in quotes, such as "https://example.com/buy"')),
    }),
  ),
  database: Type.Optional(
    table({
      path: Type.Optional(text()),
      url: Type.Optional(text()),
      url_file: Type.Optional(text()),
      reports_url: Type.Optional(text()),
      reports_url_file: Type.Optional(text()),
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
      allowed_tools: Type.Optional(texts()),
      refused_betas: Type.Optional(texts()),
      shared_objects: Type.Optional(texts()),
      extra_reasoning_efforts: Type.Optional(
        Type.Array(choice("none", "minimal", "max"), {
          description: 'a list of "none", "minimal" and "max"',
          maxItems: 3,
        }),
      ),
      max_embedding_inputs: Type.Optional(wholeNumber(1, EMBEDDING_INPUTS_MAX)),
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
      body_bytes_per_minute: Type.Optional(size()),
      connections_per_address: Type.Optional(wholeNumber(0, LIMITS_MAX.concurrentRequests)),
      failed_keys_per_minute: Type.Optional(wholeNumber(0, BILLION)),
      trusted_proxies: Type.Optional(texts()),
      redis: Type.Optional(text()),
      redis_file: Type.Optional(text()),
    }),
  ),
  log: Type.Optional(
    table({
      level: Type.Optional(choice("debug", "info", "warn", "error", "silent")),
      format: Type.Optional(choice("json", "pretty")),
      addresses: Type.Optional(flag()),
    }),
  ),
  metrics: Type.Optional(
    table({ listen: Type.Optional(text('an address in quotes, such as "127.0.0.1:9090"')) }),
  ),
  telemetry: Type.Optional(
    table({
      otlp: Type.Optional(text('an address in quotes, such as "http://127.0.0.1:4318"')),
      headers: Type.Optional(headers()),
    }),
  ),
  notify: Type.Optional(
    table({
      webhook: Type.Optional(text('an address in quotes, such as "https://example.com/hook"')),
      webhook_file: Type.Optional(text()),
      secret: Type.Optional(text()),
      secret_file: Type.Optional(text()),
      smtp: Type.Optional(
        text('an address in quotes, such as "smtps://user:password@mail.example.com"'),
      ),
      smtp_file: Type.Optional(text()),
      from: Type.Optional(text()),
      email: Type.Optional(
        Type.Union([text(), texts()], {
          description: 'a mail address in quotes, or a list such as ["one@example.com"]',
        }),
      ),
      proxy: Type.Optional(text()),
      ca_file: Type.Optional(text()),
      low: Type.Optional(roubles()),
      low_days: Type.Optional(wholeNumber(0, 365)),
      key_expires: Type.Optional(duration()),
    }),
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

/** The address of a listener. A unix path is absolute. With port 0 the system chooses the port. */
export type Listen =
  | { readonly kind: "tcp"; readonly host: string; readonly port: number }
  | { readonly kind: "unix"; readonly path: string };

/** All addresses of one family whose first `prefix` bits are those of `bytes`. An address is a network of one. */
export interface Network {
  /** The first address: 4 bytes of IPv4, or 16 of IPv6. */
  readonly bytes: readonly number[];
  readonly prefix: number;
}

/** The files of a certificate and its key, and their checked contents. */
export interface TlsConfig {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: string;
  readonly key: string;
  /** The end of the certificate in Unix milliseconds. */
  readonly expiresAt: number;
}

/** One SQLite file, for one gateway. */
export interface SqliteDatabase {
  readonly engine: "sqlite";
  /** Absolute. */
  readonly path: string;
  readonly durability: "power" | "process";
  readonly keepRequestsMs: number;
}

/** A database on a PostgreSQL server. */
export interface ServerPlace {
  /** May contain a password. It names host, user and database. */
  readonly url: string;
  /** The same without password and parameters, for messages. */
  readonly shownUrl: string;
  /** The file that the URL comes from, absolute. It may have another user or password by now. */
  readonly urlFile: string | undefined;
}

/** A database of a PostgreSQL server, for any number of replicas. */
export interface PostgresDatabase extends ServerPlace {
  readonly engine: "postgres";
  /** A hot standby that answers reports. Undefined: the database itself does. */
  readonly reports: ServerPlace | undefined;
  readonly keepRequestsMs: number;
}

/** The checked config with all defaults. Paths are absolute. Numbers have the unit in their name. */
export interface Config {
  /** The absolute path of the config file. */
  readonly file: string;
  readonly server: {
    readonly listen: Listen;
    readonly maxBodyBytes: number;
    readonly tls: TlsConfig | undefined;
    /** How long the gateway serves after the signal to stop. */
    readonly drainDelayMs: number;
    readonly shutdownGraceMs: number;
    /** 0 turns keep-alives off. */
    readonly sseKeepaliveMs: number;
    /** Whether a JSON answer gets keep-alives too: white space before it. */
    readonly jsonKeepalive: boolean;
    /** Origins as browsers send them. Pages of these may call the API. */
    readonly corsOrigins: readonly string[];
    /** Whether `GET /` answers with the page for key holders. */
    readonly page: boolean;
  };
  readonly page: {
    /** Where a key holder asks for more: an https, http or mailto URL in ASCII. Undefined: nowhere. */
    readonly contact: string | undefined;
  };
  readonly database: SqliteDatabase | PostgresDatabase;
  readonly api: {
    readonly unknownFields: "forward" | "reject";
    readonly usageChunk: "finish" | "own";
    readonly refusedFields: readonly string[];
    /** Types of tools that are refused. */
    readonly refusedTools: readonly string[];
    /** Names of extras (`contract/extras.ts`) that are given away: tools and fields. */
    readonly allowedTools: readonly string[];
    /** Values of `anthropic-beta` that are refused, in lower case. */
    readonly refusedBetas: readonly string[];
    readonly sharedObjects: readonly string[];
    /** Values of a chat's `reasoning_effort` besides those of the specification. */
    readonly extraReasoningEfforts: readonly string[];
    readonly maxEmbeddingInputs: number;
  };
  readonly billing: {
    readonly minOutputTokens: number;
    readonly holdWaitMs: number;
    readonly disconnectGraceMs: number;
  };
  /** Defaults for each key. 0 means no limit. */
  readonly limits: {
    readonly requestsPerMinute: number;
    readonly tokensPerMinute: number;
    readonly concurrentRequests: number;
    /** Of all request bodies of a key; 0: no limit. */
    readonly bodyBytesPerMinute: number;
    /** Idle connections of one client address; 0: no limit besides the descriptors. */
    readonly connectionsPerAddress: number;
    readonly failedKeysPerMinute: number;
    readonly trustedProxies: readonly Network[];
    /** The Redis or Valkey server that counts for all replicas. The URL may contain a password, `shownUrl` does not. */
    readonly redis: { readonly url: string; readonly shownUrl: string } | undefined;
  };
  readonly log: {
    readonly level: "debug" | "info" | "warn" | "error" | "silent";
    readonly format: "json" | "pretty";
    /** Whether a request's line has the client's address and user agent, and whether keys have their addresses. */
    readonly addresses: boolean;
  };
  readonly metrics: { readonly listen: Listen } | undefined;
  /** The trace collector. Undefined: no traces are sent. */
  readonly telemetry:
    | {
        /** The base address of OTLP/HTTP: http or https, without user, query, fragment or trailing slash. */
        readonly otlp: string;
        /** Names in lower case. Values may be secrets. */
        readonly headers: Readonly<Record<string, string>>;
      }
    | undefined;
  readonly notify: NotifyConfig;
  readonly providers: readonly ProviderConfig[];
  readonly models: readonly ModelConfig[];
}

/** Who gets notices, how, and from which thresholds on. */
export interface NotifyConfig {
  /** The operator's webhook: https, or http in a private network. Its path may be a secret. Set only with `secret`. */
  readonly webhook: string | undefined;
  /** `whsec_` and base64. It signs the operator's webhook, and the secrets of accounts are derived from it. */
  readonly secret: string | undefined;
  /** What sends mails, with the address of the sender. */
  readonly mail: { readonly server: MailServer; readonly from: string } | undefined;
  /** The operator's addresses. Not empty only with `mail`. */
  readonly emails: readonly string[];
  /** For webhooks and mails. May hold a password. */
  readonly proxyUrl: string | undefined;
  /** The PEM text of all authorities that are trusted. Undefined: the built-in ones. */
  readonly ca: string | undefined;
  /** An account is low below this many nano-roubles. 0: never. */
  readonly low: bigint;
  /** An account is low if its money lasts for fewer days at its pace. 0: never. */
  readonly lowDays: number;
  /** How long before its end a key is reported. 0: never. */
  readonly keyExpiresMs: number;
}

/** A server that takes mails to send, by SMTP. */
export interface MailServer {
  /** A name or an address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  /** "implicit": from the first byte. "starttls": before login and mail, or nothing is sent. */
  readonly tls: "implicit" | "starttls" | "none";
  readonly login: { readonly user: string; readonly password: string } | undefined;
}

export interface ProviderConfig {
  readonly id: string;
  readonly kind: ProviderKind;
  /** http or https, without user, query, fragment or trailing slash. */
  readonly baseUrl: string;
  /** A secret. Undefined if there is none, or if a header holds it. */
  readonly apiKey: string | undefined;
  /** Extra request headers, names in lower case. Values may be secrets. */
  readonly headers: Readonly<Record<string, string>>;
  /** May hold a password. */
  readonly proxyUrl: string | undefined;
  /** The PEM text of a private certificate authority. */
  readonly ca: string | undefined;
  readonly maxTokensField: string;
  /** The bound of an answer includes reasoning. Otherwise the model's `maxOutputTokens` is held. */
  readonly boundsReasoning: boolean;
  /** The provider accepts `stream_options.include_usage`. */
  readonly streamUsage: boolean;
  /** Top-level fields of a request that are removed before sending. */
  readonly dropFields: readonly string[];
  /** Whether a client's own chat keeps its order of messages, or gets the one that every server takes. */
  readonly messageOrder: "client" | "strict";
  /** Message fields that are removed before sending. */
  readonly dropMessageFields: readonly string[];
  /** Translated requests may be marked for the provider's prompt cache. */
  readonly automaticCache: boolean;
  readonly connectTimeoutMs: number;
  /** Silence of a stream before its first content. Each byte begins it anew. */
  readonly firstByteTimeoutMs: number;
  /** The time of a stream until its first content; 0 means no limit. */
  readonly firstContentTimeoutMs: number;
  readonly idleTimeoutMs: number;
  /** The whole attempt. A stream may take longer: `streamTimeoutMs` in routing/candidates.ts. */
  readonly totalTimeoutMs: number;
  /** 0 means no limit. */
  readonly maxConcurrent: number;
}

export interface ModelConfig {
  readonly id: string;
  readonly kind: ModelKind;
  readonly ownedBy: string;
  readonly price: Price;
  /** What a request may cause besides tokens of the usual prices. The rest is refused. */
  readonly sells: SoldExtras;
  /** 0 for an embedding model. */
  readonly maxOutputTokens: number;
  /** The longest prompt; of an embedding model the longest input. */
  readonly contextTokens: number;
  /** The operator says that the models of the routes take `reasoning_effort`, whatever their names are. */
  readonly reasoningEffort: boolean;
  /** The operator has set `context_tokens`. Otherwise it is a default, which bounds no hold and refuses no prompt. */
  readonly isContextKnown: boolean;
  /** Ids of the models whose routes are tried, in this order, if all routes of this model fail. */
  readonly fallbacks: readonly string[];
  /** At least one, in the order of the file. */
  readonly routes: readonly RouteConfig[];
}

/** Nano-roubles per token, which equals thousandths of a rouble per 1,000,000 tokens. */
export interface Price {
  readonly input: bigint;
  readonly output: bigint;
  readonly cachedInput: bigint;
  readonly cacheWrite: bigint;
  /** For tokens that the provider keeps in its cache for an hour. */
  readonly cacheWrite1h: bigint;
  /** Nano-roubles per search. */
  readonly webSearch: bigint;
}

/** True where the operator set the price, or where the model costs nothing. */
export interface SoldExtras {
  /** Cache writes for an hour. */
  readonly longCacheWrites: boolean;
  readonly webSearches: boolean;
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
  /** How fast the route generates, until finished answers show it. Undefined: a default. */
  readonly tokensPerSecond: number | undefined;
  /** What the provider charges the operator. */
  readonly operatorPrice: Price | undefined;
}
