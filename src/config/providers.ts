import { isPrivate } from "./address.ts";
import { readCredential } from "./credential.ts";
import { readProxy } from "./proxy.ts";
import { readNames, readDurationMs } from "./values.ts";
import type { Inspection, ProviderFile, DeepPartial } from "./inspection.ts";
import type { ConfigFile, ProviderConfig, ProviderKind } from "./schema.ts";
import { baseOf, isUnencrypted, readServerUrl } from "./serverUrl.ts";
import { readAuthority } from "./tls.ts";

/** The addresses of kinds that have one provider. */
const STANDARD_ADDRESSES: Partial<Record<ProviderKind, string>> = {
  anthropic: "https://api.anthropic.com/v1",
  gemini: "https://generativelanguage.googleapis.com/v1beta",
};

/** Keys that only one kind has. */
const KIND_KEYS = [
  ["bounds_reasoning", "openai"],
  ["stream_usage", "openai"],
  ["drop_message_fields", "openai"],
  ["message_order", "openai"],
  ["automatic_cache", "anthropic"],
] as const;

/** Fields without which a request is another one, costs more than is held, or is kept by the provider. */
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

/** Message fields that cannot be dropped without a change of meaning. */
const MESSAGE_FIELDS_NEEDED: ReadonlySet<string> = new Set([
  "role",
  "content",
  "tool_calls",
  "tool_call_id",
  "name",
]);

/** Providers with their defaults, in the order of the file. Problems go to the inspection. */
export function readProviders(
  file: DeepPartial<ConfigFile>,
  inspection: Inspection,
): readonly ProviderConfig[] {
  const seen = new Map<string, string>();
  return (file.providers ?? []).map((provider = {}, index) => {
    const at = `providers[${index}]`;
    checkId(provider.id, at, seen, inspection);
    return readProvider(provider, at, inspection);
  });
}

function readProvider(file: ProviderFile, at: string, inspection: Inspection): ProviderConfig {
  const kind = file.kind ?? "openai";
  const baseUrl = readBaseUrl(file.base_url, `${at}.base_url`, inspection);
  const usual = STANDARD_ADDRESSES[kind];
  if (usual !== undefined && baseUrl !== undefined && !/\/v\d\w*\/*$/.test(baseUrl.pathname)) {
    inspection.warning(`${at}.base_url`, `does not end in a version as ${usual} does; check it`);
  }
  for (const [name, required] of KIND_KEYS) {
    if (kind === required || file[name] === undefined) continue;
    inspection.problem(
      `${at}.${name}`,
      `requires kind ${required}, and the kind of this provider is ${kind}`,
    );
  }
  const credential = readCredential(file, at, inspection);
  if (baseUrl !== undefined && !credential.present && !isPrivate(baseUrl.hostname)) {
    inspection.warning(at, "has no api_key and no header that can contain one; check it");
  }
  return {
    id: file.id ?? "",
    kind,
    baseUrl: baseUrl === undefined ? "" : baseOf(baseUrl),
    apiKey: credential.apiKey,
    headers: credential.headers,
    proxyUrl: readProxy(file.proxy ?? "", `${at}.proxy`, inspection),
    ca: readAuthority(file.ca_file ?? "", `${at}.ca_file`, inspection),
    maxTokensField: readMaxTokensField(file.max_tokens_field, at, inspection),
    boundsReasoning: file.bounds_reasoning ?? true,
    streamUsage: file.stream_usage ?? true,
    dropFields: readNames(inspection, `${at}.drop_fields`, file.drop_fields ?? [], (name) =>
      FIELDS_NEEDED.has(name) || name === file.max_tokens_field
        ? "names a field that requests require"
        : undefined,
    ),
    messageOrder: file.message_order ?? "client",
    dropMessageFields: readNames(
      inspection,
      `${at}.drop_message_fields`,
      file.drop_message_fields ?? [],
      (name) =>
        MESSAGE_FIELDS_NEEDED.has(name) ? "names a field that messages require" : undefined,
    ),
    automaticCache: file.automatic_cache ?? true,
    ...readTimeouts(file, at, inspection),
    maxConcurrent: Number(file.max_concurrent ?? 0n),
  };
}

function checkId(
  id: string | undefined,
  at: string,
  seen: Map<string, string>,
  inspection: Inspection,
): void {
  if (id === undefined) return;
  const key = `${at}.id`;
  if (!isProviderId(id)) {
    inspection.problem(key, "must be 1 to 64 letters, digits, dots, underscores or hyphens");
  }
  inspection.claimId(id, at, seen);
}

/** Whether the text is a valid provider id. */
export function isProviderId(id: string): boolean {
  return /^[A-Za-z0-9._-]{1,64}$/.test(id);
}

function readBaseUrl(
  text: string | undefined,
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
  return url;
}

function readMaxTokensField(value: string | undefined, at: string, inspection: Inspection): string {
  const name = value ?? "max_tokens";
  const key = `${at}.max_tokens_field`;
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(name)) {
    inspection.problem(key, 'must be the name of a field, such as "max_completion_tokens"');
  } else if (name !== "max_tokens" && name !== "max_completion_tokens") {
    inspection.warning(
      key,
      "is a name that few providers know; a provider that ignores it can answer with more tokens than are held",
    );
  }
  return name;
}

type Timeouts = Pick<
  ProviderConfig,
  | "connectTimeoutMs"
  | "firstByteTimeoutMs"
  | "firstContentTimeoutMs"
  | "idleTimeoutMs"
  | "totalTimeoutMs"
>;

function readTimeouts(file: ProviderFile, at: string, inspection: Inspection): Timeouts {
  // The runtime's timers fire at once for more than 2^31 - 1 ms (24.8 days).
  const read = (name: keyof ProviderFile & `${string}_timeout`, fallback: string, least = "1ms") =>
    readDurationMs(inspection, `${at}.${name}`, file[name], {
      fallback,
      least,
      most: "24h",
    });
  return {
    connectTimeoutMs: read("connect_timeout", "5s"),
    firstByteTimeoutMs: read("first_byte_timeout", "5m"),
    firstContentTimeoutMs: read("first_content_timeout", "0s", "0s"),
    idleTimeoutMs: read("idle_timeout", "120s"),
    totalTimeoutMs: read("total_timeout", "10m"),
  };
}
