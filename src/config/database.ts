import { dirname, isAbsolute } from "node:path";
import { isPrivate } from "./address.ts";
import { ConfigError, Inspection, type DeepPartial } from "./inspection.ts";
import type { Config, ConfigFile, ServerPlace } from "./schema.ts";
import { readSecret, readSecretUrl } from "./secretUrl.ts";
import { poolerProblem } from "./poolers.ts";
import { readDurationMs } from "./values.ts";

type DatabaseFile = NonNullable<DeepPartial<ConfigFile>["database"]>;
type Redis = NonNullable<Config["limits"]["redis"]>;

/** How PostgreSQL's client uses TLS (https://www.postgresql.org/docs/current/libpq-ssl.html). */
const SSL_MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
/** What a URL may say besides server, user and name. The client would take others from there too, such as `host`. */
const URL_PARAMETERS: ReadonlySet<string> = new Set(["sslmode", "sslrootcert", "channel_binding"]);

/** Reads [database]: a SQLite file, or the URL of a PostgreSQL server. Problems go to the inspection. */
export function readDatabase(file: DatabaseFile, inspection: Inspection): Config["database"] {
  const keepRequestsMs = readDurationMs(inspection, "database.keep_requests", file.keep_requests, {
    fallback: "365d",
    least: "1h",
    most: "36500d",
  });
  const place = readPlace("database.url", file.url, file.url_file, inspection);
  const reports = readPlace(
    "database.reports_url",
    file.reports_url,
    file.reports_url_file,
    inspection,
  );
  if (place === undefined) {
    if (reports !== undefined)
      inspection.problem(
        reports.urlFile === undefined ? "database.reports_url" : "database.reports_url_file",
        "needs url or url_file, the PostgreSQL database whose standby it is: set that too, or remove it",
      );
    return { ...readSqlite(file, inspection), keepRequestsMs };
  }
  if (file.path !== undefined)
    inspection.problem(
      "database.path",
      "must not be set together with url: keep url for PostgreSQL, or path for a SQLite file",
    );
  if (file.durability !== undefined)
    inspection.problem(
      "database.durability",
      "must not be set together with url: remove it; with PostgreSQL a charge always survives a power cut of the server",
    );
  return { engine: "postgres", ...place, reports, keepRequestsMs };
}

/** The URL of a PostgreSQL database. Undefined: there is none. Problems go to the inspection. */
function readPlace(
  key: string,
  literal: string | undefined,
  path: string | undefined,
  inspection: Inspection,
): ServerPlace | undefined {
  const secret = readSecret(key, literal, path, inspection);
  if (secret === undefined) return undefined;
  const { text } = secret;
  const urlFile = secret.key === key ? undefined : inspection.absolutePath(path ?? "");
  const url = readSecretUrl(
    text,
    secret.key,
    "postgres://user:password@host:5432/name",
    inspection,
  );
  if (url === undefined) return { url: "", shownUrl: "", urlFile };
  checkPostgres(url, secret.key, inspection);
  const shownUrl = `${url.protocol}//${url.username}@${url.host}${url.pathname}`;
  return { url: text, shownUrl, urlFile };
}

/**
 * The URL that the file has now. Throws ConfigError if it cannot be used, or if it names another server or database than
 * before: nobody knows whether that one has the same records.
 */
export function readUrlAgain(file: string, before: string): URL {
  const inspection = new Inspection(dirname(file), 0);
  const place = readPlace("url", undefined, file, inspection);
  const [problem] = inspection.problems;
  if (problem !== undefined) throw new ConfigError([problem.replace(/^\w+/, file)]);
  const text = place?.url ?? "";
  if (withoutUser(text) !== withoutUser(before))
    throw new ConfigError([
      `${file}: names another server, database or parameters than at the start: write the old ones again, or restart with the new ones`,
    ]);
  return new URL(text);
}

/** Server, database and parameters of a URL: only user and password may change while connections to it are open. */
export function withoutUser(text: string): string {
  const url = new URL(text);
  url.username = "";
  url.password = "";
  return url.href;
}

/** Reads the server that counts limits for all replicas. Undefined: each replica counts. */
export function readRedis(
  file: { readonly redis?: string | undefined; readonly redis_file?: string | undefined },
  inspection: Inspection,
): Redis | undefined {
  const secret = readSecret("limits.redis", file.redis, file.redis_file, inspection);
  if (secret === undefined) return undefined;
  const { key, text } = secret;
  const url = readSecretUrl(text, key, "redis://user:password@host:6379", inspection);
  if (url === undefined) return { url: "", shownUrl: "" };
  const isEncrypted = ["rediss:", "valkeys:"].includes(url.protocol);
  if (!isEncrypted && !["redis:", "valkey:"].includes(url.protocol))
    inspection.problem(key, "must begin with redis://, rediss://, valkey:// or valkeys://");
  if (!/^(?:\/\d{0,4})?$/.test(url.pathname) || url.search !== "")
    inspection.problem(key, "must end after the port, or after the number of a database (/0)");
  if (!isEncrypted && !isPrivate(url.hostname))
    inspection.warning(
      key,
      "is not encrypted to a public address: the password can be read on its way; use rediss://",
    );
  // Some operators write the password in the place of the user.
  return { url: text, shownUrl: `${url.protocol}//${url.host}${url.pathname}` };
}

/** The database in messages: a path, or a URL without password. */
export function databaseName(database: Config["database"]): string {
  return database.engine === "sqlite" ? database.path : database.shownUrl;
}

function readSqlite(file: DatabaseFile, inspection: Inspection) {
  const path = file.path ?? "tollgate.db";
  if (path === "" || path.includes("\0") || path.startsWith(":memory:")) {
    inspection.problem("database.path", "must be a file: balances must survive a restart");
  }
  return {
    engine: "sqlite",
    path: inspection.absolutePath(path),
    durability: file.durability ?? "power",
  } as const;
}

function checkPostgres(url: URL, key: string, inspection: Inspection): void {
  if (url.protocol !== "postgres:" && url.protocol !== "postgresql:")
    inspection.problem(
      key,
      "must begin with postgres:// or postgresql://: other servers are not supported; a SQLite file is set with path",
    );
  if (url.username === "") inspection.problem(key, "must name a user: postgres://USER@host/name");
  if (!/^\/[^/]+$/.test(url.pathname))
    inspection.problem(key, "must name a database: postgres://user@host/NAME");
  for (const [name] of url.searchParams) {
    if (URL_PARAMETERS.has(name)) continue;
    inspection.problem(
      key,
      `must not have other parameters after the ? than ${[...URL_PARAMETERS].join(", ")}`,
    );
  }
  const authority = url.searchParams.get("sslrootcert");
  if (authority !== null && !isAbsolute(authority))
    inspection.problem(key, "must name an absolute path in sslrootcert");
  const pooler = poolerProblem(url);
  if (pooler !== undefined) inspection.warning(key, pooler);
  const mode = url.searchParams.get("sslmode") ?? "disable";
  if (!SSL_MODES.includes(mode))
    inspection.problem(key, `has a wrong sslmode: use one of ${SSL_MODES.join(", ")}`);
  if (!mode.startsWith("verify-") && !isPrivate(url.hostname))
    inspection.warning(
      key,
      "goes to a public address without a check of its certificate: add ?sslmode=verify-full",
    );
}
