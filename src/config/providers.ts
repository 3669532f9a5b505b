import { isPrivate } from "./address.ts";
import { ONE_CREDENTIAL, readCredential, type Credential } from "./credential.ts";
import { commandOptions, gigachatOptions, readGigachat } from "./keyIssuer.ts";
import { accountOptions } from "./providerAccounts.ts";
import type { Inspection } from "./inspection.ts";
import {
  choice,
  duration,
  file,
  flag,
  headers,
  names,
  readTable,
  readTables,
  refuseOtherKinds,
  secret,
  tables,
  text,
  wholeNumber,
  type Table,
  type Values,
} from "./option.ts";
import { marginPercent } from "./pricing.ts";
import { readProxy } from "./proxy.ts";
import { baseOf, isUnencrypted, readServerUrl } from "./serverUrl.ts";
import { readAuthority } from "./tls.ts";

/** The addresses of kinds that have one provider. */
const STANDARD_ADDRESSES: Partial<Record<ProviderKind, string>> = {
  anthropic: "https://api.anthropic.com/v1",
  gemini: "https://generativelanguage.googleapis.com/v1beta",
};

/**
 * Fields that must not be dropped: without them the request is another one, costs more than is held, or is kept by the
 * provider.
 */
const FIELDS_NEEDED: ReadonlySet<string> = new Set([
  "model",
  "messages",
  "input",
  "contents",
  "stream",
  "stream_options",
  "store",
  "max_tokens",
  "max_completion_tokens",
  "max_output_tokens",
  "generationConfig",
]);

const FIELD_NEEDED = "names a field that requests require";

/** Message fields that cannot be dropped without a change of meaning. */
const MESSAGE_FIELDS_NEEDED: ReadonlySet<string> = new Set([
  "role",
  "content",
  "tool_calls",
  "tool_call_id",
  "name",
]);

/** The runtime's timers fire at once for more than 2^31 - 1 ms (24.8 days). */
const TIMEOUT = { min: "1ms", max: "24h" } as const;

export const providerOptions = {
  id: text("id", {
    required: true,
    form: "a short name that you choose, in quotes",
    example: '"openai"',
    doc: "A name that you choose. Routes refer to it. If you change it, stored responses (previous_response_id) are no longer found.",
  }),
  kind: choice("kind", ["openai", "anthropic", "gemini"], {
    default: "openai",
    doc: 'The provider\'s interface. Most providers and all common model servers use "openai". "anthropic" is Anthropic\'s Messages API, "gemini" is Google\'s interface to the Gemini models.',
  }),
  /** http or https, without user, query, fragment or trailing slash. */
  baseUrl: text("base_url", {
    required: true,
    form: 'the address in quotes, such as "https://api.openai.com/v1"',
    example: '"https://api.openai.com/v1"',
    doc: "The address from the provider's documentation, with the version.",
  }),
  /** A secret. Undefined if there is none, or if a header holds it. */
  apiKey: secret("api_key", {
    serveOnly: true,
    what: "key",
    example: '"${OPENAI_API_KEY}"',
    doc: 'The key. Or api_key_file = "/run/secrets/openai" reads it from a file. Omit both if the provider needs no key.',
  }),
  ...commandOptions,
  ...gigachatOptions,
  maxTokensField: text("max_tokens_field", {
    default: "max_tokens",
    example: '"max_completion_tokens"',
    doc: 'The provider\'s field for the bound of an answer. OpenAI uses "max_completion_tokens".',
  }),
  /** False: the model's `maxOutputTokens` is held. */
  boundsReasoning: flag("bounds_reasoning", {
    default: true,
    only: "openai",
    doc: "Whether that bound includes the reasoning. Set false for a provider whose bound excludes it, such as DashScope: each request then holds the model's max_output_tokens, whatever its bound is.",
  }),
  streamUsage: flag("stream_usage", {
    default: true,
    only: "openai",
    doc: "Asks for the usage of streams by stream_options.include_usage. Set false for a provider that refuses the field: a stream is then charged by the usage that the provider sends anyway, or by an estimate.",
  }),
  dropFields: names("drop_fields", {
    check: (name) => (FIELDS_NEEDED.has(name) ? FIELD_NEEDED : undefined),
    doc: 'Top-level fields of a request that this provider refuses, such as "prompt_cache_key", which Codex always sends.',
  }),
  dropMessageFields: names("drop_message_fields", {
    only: "openai",
    check: (name) =>
      MESSAGE_FIELDS_NEEDED.has(name) ? "names a field that messages require" : undefined,
    doc: "Message fields that this provider refuses. Some answers contain such fields (reasoning_content, thinking_blocks, extra_content, images), and clients send them back with the conversation.",
  }),
  messageOrder: choice("message_order", ["client", "strict"], {
    default: "client",
    only: "openai",
    doc: 'The order of messages in a client\'s own chat. "client": as the client sends it. "strict": one system message, first, then user and assistant in turns, for servers that refuse other orders, such as Mistral and many templates on vLLM. Requests of other interfaces are always written in the strict order.',
  }),
  automaticCache: flag("automatic_cache", {
    default: true,
    example: false,
    only: "anthropic",
    doc: "Marks translated requests for the prompt cache if the client does not and it pays: docs/providers/anthropic.md#prompt-cache-of-claude. Set false for a compatible server that refuses cache_control at the top of a request.",
  }),
  /** Names in lower case. Values may be secrets. */
  headers: headers("headers", {
    serveOnly: true,
    doc: 'Extra request headers, such as { "api-key" = "${AZURE_KEY}" }.',
  }),
  proxy: text("proxy", {
    default: "",
    serveOnly: true,
    doc: 'Connects through this proxy: "http://user:password@host:port", also with https:// (TLS to the proxy), socks5:// or socks5h:// (the proxy resolves the provider\'s name). HTTPS_PROXY and the like are not used; "${HTTPS_PROXY}" works here.',
  }),
  caFile: file("ca_file", {
    serveOnly: true,
    doc: "PEM file of a private certificate authority that signed the provider's certificate. The public ones do not count then. A proxy behind https:// may have a certificate of this authority or of a public one.",
  }),
  connectTimeoutMs: duration("connect_timeout", {
    ...TIMEOUT,
    default: "5s",
    doc: "The time to connect.",
  }),
  firstByteTimeoutMs: duration("first_byte_timeout", {
    ...TIMEOUT,
    default: "5m",
    doc: "Streams: the longest silence before the first content. Each byte begins it anew: pings, comments, opening events.",
  }),
  firstContentTimeoutMs: duration("first_content_timeout", {
    default: "0s",
    max: "24h",
    doc: "Streams: the time to the first content, whatever comes before it, for an earlier failover. 0s: none, so that a model may reason for as long as it needs.",
  }),
  idleTimeoutMs: duration("idle_timeout", {
    ...TIMEOUT,
    default: "120s",
    doc: "Streams: the time between two parts.",
  }),
  /** A stream may take longer: `streamTimeoutMs` in routing/candidates.ts. */
  totalTimeoutMs: duration("total_timeout", {
    ...TIMEOUT,
    default: "10m",
    doc: "One whole attempt. It is the only limit for an answer in JSON: shorten it for an earlier failover. A stream may take as long as max_output_tokens need at 10 tokens a second, and one that still writes is not ended.",
  }),
  /** 0 means no limit. */
  maxConcurrent: wholeNumber("max_concurrent", {
    default: 0,
    max: 1_000_000,
    doc: "Concurrent requests. Above the limit the next route is used. 0 = no limit. With accounts: of each account that does not set its own.",
  }),
  /** 0 means no limit. */
  requestsPerMinute: wholeNumber("requests_per_minute", {
    default: 0,
    max: 10_000_000,
    doc: "Requests in a minute. Above the limit the next route is used. Replicas divide it among them. 0 = no limit. With accounts: of each account that does not set its own.",
  }),
  accounts: tables("accounts", accountOptions, {
    form: "a list of tables: write [[providers.accounts]]",
    max: 100,
    doc: "",
  }),
  margin: marginPercent,
} as const;

export type ProviderKind = Values<typeof providerOptions>["kind"];
/** A provider, or one account of a provider that has several. They share all but what the account sets. */
export type ProviderConfig = Readonly<ReturnType<typeof readProvider>[number]>;

/**
 * Providers with their defaults, in the order of the file. A provider with accounts is one entry for each of them. Problems
 * go to the inspection.
 */
export function readProviders(
  items: readonly unknown[],
  inspection: Inspection,
): readonly ProviderConfig[] {
  const seen = new Map<string, string>();
  return readTables(items, "providers", inspection, (table, at) =>
    readProvider(table, at, seen, inspection),
  ).flat();
}

/** The providers that a route names: one, or all accounts of a provider, or one account as `provider/account`. */
export function providersNamed(
  providers: readonly ProviderConfig[],
  name: string,
): readonly ProviderConfig[] {
  return providers.filter(({ id, provider }) => provider === name || id === name);
}

/** What a route may name: providers and accounts with ids of the right form. */
export function namesOfProviders(providers: readonly ProviderConfig[]): readonly string[] {
  const names = new Set(providers.flatMap(({ provider, id }) => [provider, id]));
  return [...names].filter((name) => name.split("/").every(isShortId));
}

function readProvider(table: Table, at: string, seen: Map<string, string>, inspection: Inspection) {
  const { proxy, caFile, accounts, auth, scope, tokenUrl, ...others } = readTable(
    providerOptions,
    table,
    at,
    inspection,
  );
  const { apiKeyCommand, apiKeyLifetimeMs, ...given } = others;
  const ownKey = { ...given, apiKeyCommand, apiKeyLifetimeMs };
  const { kind, maxTokensField } = given;
  checkShortId(given.id, at, seen, inspection);
  refuseOtherKinds(
    providerOptions,
    { table, at, kind },
    inspection,
    (only) => `requires kind ${only}, and the kind of this provider is ${kind}`,
  );
  const baseUrl = readBaseUrl(given.baseUrl, kind, `${at}.base_url`, inspection);
  const login = readGigachat({ auth, scope, tokenUrl }, table, at, inspection);
  const credential = readCredential(ownKey, login, at, inspection);
  const proxyUrl = readProxy(proxy, `${at}.proxy`, inspection);
  const ca = readAuthority(caFile, `${at}.ca_file`, inspection);
  checkMaxTokensField(maxTokensField, `${at}.max_tokens_field`, inspection);
  for (const [index, name] of given.dropFields.entries())
    if (name === maxTokensField) inspection.problem(`${at}.drop_fields[${index}]`, FIELD_NEEDED);
  const provider = given.id ?? "";
  const whole = {
    ...given,
    id: provider,
    /** The id of the provider's table. It differs from `id` for one of several accounts. */
    provider,
    /** The share of an account beside the other accounts of its provider. */
    weight: 1,
    baseUrl: baseUrl === undefined ? "" : baseOf(baseUrl),
    apiKey: credential.apiKey,
    issuer: credential.issuer,
    headers: credential.headers,
    /** May hold a password. */
    proxyUrl,
    /** The PEM text of a private certificate authority. */
    ca,
  };
  if (accounts.length === 0) {
    warnAboutCredential(credential, baseUrl, at, inspection);
    requireLoginKey(credential, at, inspection);
    return [whole];
  }
  if (given.apiKey !== undefined) inspection.problem(given.apiKey.key, OF_NO_ACCOUNT);
  if (apiKeyCommand.length > 0) inspection.problem(`${at}.api_key_command`, OF_NO_ACCOUNT);
  const seenAccounts = new Map<string, string>();
  return readTables(accounts, `${at}.accounts`, inspection, (account, place) => {
    const own = readTable(accountOptions, account, place, inspection);
    checkShortId(own.id, place, seenAccounts, inspection);
    const url =
      own.baseUrl === undefined
        ? baseUrl
        : readBaseUrl(own.baseUrl, kind, `${place}.base_url`, inspection);
    const { apiKey, issuer, headers, present } = readCredential(own, login, place, inspection);
    if ((apiKey ?? issuer) !== undefined && "authorization" in credential.headers)
      inspection.problem(`${at}.headers`, ONE_CREDENTIAL);
    requireLoginKey({ apiKey, issuer }, place, inspection);
    warnAboutCredential({ present: present || credential.present }, url, place, inspection);
    return {
      ...whole,
      id: `${provider}/${own.id}`,
      weight: own.weight,
      baseUrl: url === undefined ? "" : baseOf(url),
      apiKey,
      issuer,
      headers: { ...credential.headers, ...headers },
      maxConcurrent: own.maxConcurrent ?? given.maxConcurrent,
      requestsPerMinute: own.requestsPerMinute ?? given.requestsPerMinute,
    };
  });
}

/** The problem of a key of a provider whose accounts have keys. */
const OF_NO_ACCOUNT = "belongs to no account: move it into an account";

function requireLoginKey(
  { apiKey, issuer }: Pick<Credential, "apiKey" | "issuer">,
  at: string,
  inspection: Inspection,
): void {
  if (issuer?.kind === "gigachat" && apiKey === undefined)
    inspection.problem(`${at}.api_key`, "is required: the authorization key of GigaChat");
}

function warnAboutCredential(
  { present }: { readonly present: boolean },
  baseUrl: URL | undefined,
  at: string,
  inspection: Inspection,
): void {
  if (baseUrl !== undefined && !present && !isPrivate(baseUrl.hostname))
    inspection.warning(at, "has no api_key and no header that can contain one; check it");
}

/** Ids have no slash: it separates provider and account. */
function checkShortId(
  id: string | undefined,
  at: string,
  seen: Map<string, string>,
  inspection: Inspection,
): void {
  if (id === undefined) return;
  if (!isShortId(id)) {
    inspection.problem(`${at}.id`, "must be 1 to 64 letters, digits, dots, underscores or hyphens");
  }
  inspection.claimId(id, at, seen);
}

function isShortId(id: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(id);
}

function readBaseUrl(
  text: string | undefined,
  kind: ProviderKind,
  key: string,
  inspection: Inspection,
): URL | undefined {
  if (text === undefined) return undefined;
  const url = readServerUrl(text, key, "api_key or headers", inspection);
  if (url === undefined) return undefined;
  if (/\/(?:chat\/completions|responses|messages)\/*$/.test(url.pathname)) {
    inspection.problem(
      key,
      "must not include /chat/completions, /responses or /messages: the gateway adds them",
    );
  }
  if (isUnencrypted(url)) {
    inspection.warning(
      key,
      "is http:// to a public address: the key and all texts are sent unencrypted",
    );
  }
  const usual = STANDARD_ADDRESSES[kind];
  if (usual !== undefined && !/\/v\d\w*\/*$/.test(url.pathname)) {
    inspection.warning(key, `does not end in a version as ${usual} does; check it`);
  }
  return url;
}

function checkMaxTokensField(name: string, key: string, inspection: Inspection): void {
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(name)) {
    inspection.problem(key, 'must be the name of a field, such as "max_completion_tokens"');
  } else if (name !== "max_tokens" && name !== "max_completion_tokens") {
    inspection.warning(
      key,
      "is a name that few providers know; a provider that ignores it can answer with more tokens than are held",
    );
  }
}
