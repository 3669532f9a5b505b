import { isAbsolute } from "node:path";
import { isPrivate } from "./address.ts";
import type { DeepPartial, Inspection } from "./inspection.ts";
import type { Config, ConfigFile } from "./schema.ts";
import { readSecret, readSecretUrl } from "./secretUrl.ts";
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
  const secret = readSecret("database.url", file.url, file.url_file, inspection);
  if (secret === undefined) return { ...readSqlite(file, inspection), keepRequestsMs };
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
  const { key, text } = secret;
  const url = readSecretUrl(text, key, "postgres://user:password@host:5432/name", inspection);
  if (url === undefined) return { engine: "postgres", url: "", shownUrl: "", keepRequestsMs };
  checkPostgres(url, key, inspection);
  const shownUrl = `${url.protocol}//${url.username}@${url.host}${url.pathname}`;
  return { engine: "postgres", url: text, shownUrl, keepRequestsMs };
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
  const mode = url.searchParams.get("sslmode") ?? "disable";
  if (!SSL_MODES.includes(mode))
    inspection.problem(key, `has a wrong sslmode: use one of ${SSL_MODES.join(", ")}`);
  if (!mode.startsWith("verify-") && !isPrivate(url.hostname))
    inspection.warning(
      key,
      "goes to a public address without a check of its certificate: add ?sslmode=verify-full",
    );
}
