import { fitsSocketPath, isLoopback, hostsOverlap, parseListen } from "./address.ts";
import type { Inspection, DeepPartial } from "./inspection.ts";
import { networkAround, parseNetwork } from "./network.ts";
import { readNames, readDurationMs, readSizeBytes } from "./values.ts";
import type { Config, ConfigFile, Listen } from "./schema.ts";
import { baseOf, isUnencrypted, parseUrl, readServerUrl } from "./serverUrl.ts";
import { readHeaders } from "./credential.ts";
import { readDatabase, readRedis } from "./database.ts";
import { readNotify } from "./notify.ts";
import { readTls } from "./tls.ts";

/** The config without providers and models. */
export type Settings = Omit<Config, "file" | "providers" | "models">;

/** Fields that every request needs. They cannot be refused. */
const REQUEST_FIELDS_NEEDED: ReadonlySet<string> = new Set(["model", "messages", "input"]);

/** Fills in the defaults and checks what the schema cannot. Problems go to the inspection. */
export function readSettings(file: DeepPartial<ConfigFile>, inspection: Inspection): Settings {
  const settings = {
    server: readServer(file.server ?? {}, inspection),
    page: { contact: readContact(file.page?.contact ?? "", inspection) },
    database: readDatabase(file.database ?? {}, inspection),
    api: readApi(file.api ?? {}, inspection),
    billing: readBilling(file.billing ?? {}, inspection),
    limits: readLimits(file.limits ?? {}, inspection),
    log: readLog(file.log ?? {}),
    metrics: readMetrics(file.metrics, inspection),
    telemetry: readTelemetry(file.telemetry ?? {}, inspection),
    notify: readNotify(file.notify ?? {}, inspection),
  };
  warnAboutListening(settings, inspection);
  if (settings.limits.redis !== undefined && settings.database.engine === "sqlite")
    inspection.problem(
      "limits.redis",
      "needs [database] url: one gateway with a SQLite file counts its limits in memory; remove it",
    );
  return settings;
}

type Section<Name extends keyof ConfigFile> = NonNullable<DeepPartial<ConfigFile>[Name]>;

function readServer(server: Section<"server">, inspection: Inspection): Settings["server"] {
  return {
    listen: readListen(inspection, "server.listen", server.listen ?? "127.0.0.1:8080"),
    maxBodyBytes: readSizeBytes(inspection, "server.max_body", server.max_body, {
      fallback: "20MB",
      least: "1KB",
      most: "1GB",
    }),
    tls: readTls(server.tls_cert ?? "", server.tls_key ?? "", inspection),
    drainDelayMs: readDurationMs(inspection, "server.drain_delay", server.drain_delay, {
      fallback: "3s",
      least: "0s",
      most: "5m",
    }),
    shutdownGraceMs: readDurationMs(inspection, "server.shutdown_grace", server.shutdown_grace, {
      fallback: "30s",
      least: "0s",
      most: "1h",
    }),
    sseKeepaliveMs: readDurationMs(inspection, "server.sse_keepalive", server.sse_keepalive, {
      fallback: "15s",
      least: "0s",
      most: "1h",
    }),
    jsonKeepalive: server.json_keepalive ?? true,
    corsOrigins: readNames(
      inspection,
      "server.cors_origins",
      server.cors_origins ?? [],
      originProblem,
    ),
    page: server.page ?? true,
  };
}

/** Scheme, host and port, as browsers write them. Apps in a web view have schemes of their own. */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/;

/** Browsers send an origin in one form only, and it is compared as text. */
function originProblem(origin: string): string | undefined {
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  const isWeb = url?.protocol === "https:" || url?.protocol === "http:";
  const isExact = url !== undefined && ORIGIN.test(origin) && (!isWeb || url.origin === origin);
  return isExact
    ? undefined
    : 'must be one exact origin as browsers send it, such as "https://chat.example.com" or "http://localhost:3000": no *, no path, no slash at the end, lower case, and no usual port';
}

/** The name before the @ of a mailto URL, then a host: one address, as browsers open it. */
const MAILTO = /^mailto:[^\s\\\p{Cc}@?]+@[^\s\\\p{Cc}@?]+(?:\?[^\s\\\p{Cc}]*)?$/iu;

/** The URL in ASCII; undefined if the text is empty. Key holders see it, so it must not contain a password. */
function readContact(text: string, inspection: Inspection): string | undefined {
  if (text === "") return undefined;
  const url = MAILTO.test(text) && URL.canParse(text) ? new URL(text) : parseUrl(text);
  if (url === undefined) {
    inspection.problem(
      "page.contact",
      'must be a link for key holders that begins with https:// or http://, or "mailto:" and an address, such as "https://example.com/buy" or "mailto:sales@example.com"',
    );
    return undefined;
  }
  if (url.username !== "" || url.password !== "") {
    inspection.problem("page.contact", "must not contain a user or password: key holders see it");
  }
  return url.href;
}

function readApi(api: Section<"api">, inspection: Inspection): Settings["api"] {
  const refused = ["models", "route", "provider"] as const;
  return {
    unknownFields: api.unknown_fields ?? "forward",
    usageChunk: api.usage_chunk ?? "finish",
    refusedFields: readNames(
      inspection,
      "api.refused_fields",
      api.refused_fields ?? refused,
      (name) =>
        REQUEST_FIELDS_NEEDED.has(name) ? "names a field that requests require" : undefined,
    ),
    refusedTools: readNames(inspection, "api.refused_tools", api.refused_tools ?? []),
    allowedTools: readNames(inspection, "api.allowed_tools", api.allowed_tools ?? []),
    refusedBetas: readNames(
      inspection,
      "api.refused_betas",
      api.refused_betas ?? ["context-1m-2025-08-07"],
    ).map((beta) => beta.toLowerCase()),
    sharedObjects: readNames(inspection, "api.shared_objects", api.shared_objects ?? []),
    extraReasoningEfforts: (api.extra_reasoning_efforts ?? []).filter(
      (effort) => effort !== undefined,
    ),
    maxEmbeddingInputs: Number(api.max_embedding_inputs ?? 2048n),
  };
}

function readBilling(billing: Section<"billing">, inspection: Inspection): Settings["billing"] {
  return {
    minOutputTokens: Number(billing.min_output_tokens ?? 16n),
    holdWaitMs: readDurationMs(inspection, "billing.hold_wait", billing.hold_wait, {
      fallback: "2s",
      least: "0s",
      most: "5m",
    }),
    disconnectGraceMs: readDurationMs(
      inspection,
      "billing.disconnect_grace",
      billing.disconnect_grace,
      { fallback: "2s", least: "0s", most: "10m" },
    ),
  };
}

function readLimits(limits: Section<"limits">, inspection: Inspection): Settings["limits"] {
  const proxies = readNames(
    inspection,
    "limits.trusted_proxies",
    limits.trusted_proxies ?? [],
    proxyProblem,
  );
  return {
    requestsPerMinute: Number(limits.requests_per_minute ?? 600n),
    tokensPerMinute: Number(limits.tokens_per_minute ?? 0n),
    concurrentRequests: Number(limits.concurrent_requests ?? 64n),
    bodyBytesPerMinute: readSizeBytes(
      inspection,
      "limits.body_bytes_per_minute",
      limits.body_bytes_per_minute,
      { fallback: "120MB", least: "0B", most: "1000GB" },
    ),
    connectionsPerAddress: Number(limits.connections_per_address ?? 1000n),
    failedKeysPerMinute: Number(limits.failed_keys_per_minute ?? 60n),
    trustedProxies: proxies.flatMap((text) => parseNetwork(text) ?? []),
    redis: readRedis(limits, inspection),
  };
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

function readLog(log: Section<"log">): Settings["log"] {
  return {
    level: log.level ?? "info",
    format: log.format ?? "json",
    addresses: log.addresses ?? true,
  };
}

function readMetrics(
  metrics: Section<"metrics"> | undefined,
  inspection: Inspection,
): Settings["metrics"] {
  if (metrics?.listen === undefined) return undefined;
  return { listen: readListen(inspection, "metrics.listen", metrics.listen) };
}

/** Reads the trace collector. Undefined if no traces are sent. Problems go to the inspection. */
function readTelemetry(
  { otlp = "", headers = {} }: Section<"telemetry">,
  inspection: Inspection,
): Settings["telemetry"] {
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

function readListen(inspection: Inspection, key: string, text: string): Listen {
  const listen = parseListen(text);
  if (listen === undefined) {
    inspection.problem(
      key,
      'must be "ADDRESS:PORT" ("0.0.0.0:8080" is every address of this machine) or "unix:/path"',
    );
    return { kind: "tcp", host: "127.0.0.1", port: 0 };
  }
  if (listen.kind === "tcp") return listen;
  const path = inspection.absolutePath(listen.path);
  if (!fitsSocketPath(path)) {
    inspection.problem(key, "is too long for a Unix socket: use a path of at most 103 bytes");
  }
  return { kind: "unix", path };
}

function warnAboutListening(settings: Settings, inspection: Inspection): void {
  const { server, metrics } = settings;
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
