import { dirname, isAbsolute } from "node:path";
import { isPrivate } from "./address.ts";
import { ConfigError, Inspection } from "./inspection.ts";
import { choice, duration, readTable, secret, text, type Table } from "./option.ts";
import { readSecret, readSecretUrl, type Secret } from "./secretUrl.ts";

/** The Redis or Valkey server that counts for all replicas. The URL may contain a password, `shownUrl` does not. */
interface Redis {
  readonly url: string;
  readonly shownUrl: string;
}

/** How PostgreSQL's client uses TLS (https://www.postgresql.org/docs/current/libpq-ssl.html). */
const SSL_MODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
/** The parameters that a URL may have. The client would take others from there too, such as `host`. */
const URL_PARAMETERS: ReadonlySet<string> = new Set(["sslmode", "sslrootcert", "channel_binding"]);

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
  /** The URL without password and parameters. Messages show this one. */
  readonly shownUrl: string;
  /** The absolute path of the file that the URL comes from. Its user and password may have changed since. */
  readonly urlFile: string | undefined;
}

/** A database of a PostgreSQL server, for any number of replicas. */
export interface PostgresDatabase extends ServerPlace {
  readonly engine: "postgres";
  /** A hot standby that answers reports. Undefined: the database itself does. */
  readonly reports: ServerPlace | undefined;
  readonly keepRequestsMs: number;
}

export const databaseOptions = {
  path: text("path", {
    default: "tollgate.db",
    restart: true,
    inUnit: true,
    doc: "The file with accounts, keys, balances and usage. It is created if it does not exist. A systemd service can write to this folder only: if the folder changes, write the unit again as above.",
  }),
  url: secret("url", {
    restart: urlAtStart,
    doc: 'A PostgreSQL database instead of the file, for gateways on several machines: remove path and durability, and write "postgres://USER:PASSWORD@HOST:5432/NAME". "?sslmode=verify-full" at its end encrypts and checks the certificate. Or a file that contains the URL. The file is read again for each new connection, so its user and password may change while the gateway runs. Another server, database or parameter needs a restart.',
  }),
  reports: secret("reports_url", {
    doc: 'A hot standby of that database, or a file that contains its URL. The reports of commands (usage, requests, balance history, audit) and the reads of the console go there, and say how far it is behind. "": the database itself answers them.',
  }),
  keepRequestsMs: duration("keep_requests", {
    default: "365d",
    min: "1h",
    max: "36500d",
    doc: "Requests that are this much older than the newest are folded into daily totals. Reports still add up, and the ledger is kept for ever. Days are UTC. `usage --since` with a time inside a folded day counts that whole day.",
  }),
  durability: choice("durability", ["power", "process"], {
    default: "power",
    restart: true,
    doc: 'Of a SQLite file. "power": a charge survives a power cut. "process": it survives a crash of the process only, and is faster.',
  }),
} as const;

/** Reads [database]: a SQLite file, or the URL of a PostgreSQL server. Problems go to the inspection. */
export function readDatabase(
  table: Table,
  inspection: Inspection,
): SqliteDatabase | PostgresDatabase {
  const { path, url, reports, keepRequestsMs, durability } = readTable(
    databaseOptions,
    table,
    "database",
    inspection,
  );
  const place = url && readPlace(url, inspection);
  const standby = reports && readPlace(reports, inspection);
  if (place === undefined) {
    if (reports !== undefined)
      inspection.problem(
        reports.key,
        "needs url or url_file, the PostgreSQL database whose standby it is: set that too, or remove it",
      );
    if (path === "" || path.includes("\0") || path.startsWith(":memory:"))
      inspection.problem("database.path", "must be a file: balances must survive a restart");
    return { engine: "sqlite", path: inspection.absolutePath(path), durability, keepRequestsMs };
  }
  if (Object.hasOwn(table, "path"))
    inspection.problem(
      "database.path",
      "must not be set together with url: keep url for PostgreSQL, or path for a SQLite file",
    );
  if (Object.hasOwn(table, "durability"))
    inspection.problem(
      "database.durability",
      "must not be set together with url: remove it; with PostgreSQL a charge always survives a power cut of the server",
    );
  return { engine: "postgres", ...place, reports: standby, keepRequestsMs };
}

/** The part of the URL that must stay the same until a restart. User and password in a file may change. */
function urlAtStart(database: SqliteDatabase | PostgresDatabase): string | undefined {
  if (database.engine === "sqlite") return undefined;
  const { url, urlFile } = database;
  return urlFile === undefined ? url : withoutUser(url);
}

/** The URL of a PostgreSQL database. Problems go to the inspection. */
function readPlace(secret: Secret, inspection: Inspection): ServerPlace {
  const { text, key, file } = secret;
  const url = readSecretUrl(secret, "postgres://user:password@host:5432/name", inspection);
  if (url === undefined) return { url: "", shownUrl: "", urlFile: file };
  checkPostgres(url, key, inspection);
  const shownUrl = `${url.protocol}//${url.username}@${url.host}${url.pathname}`;
  return { url: text, shownUrl, urlFile: file };
}

/**
 * The URL that the file has now. Throws ConfigError if the URL cannot be used, or if it names another server or
 * database than before: whether that one has the same records is not known.
 */
export function readUrlAgain(file: string, before: string): URL {
  const inspection = new Inspection(dirname(file), 0);
  const secret = readSecret("url", "", file, inspection);
  const place = secret && readPlace(secret, inspection);
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
function withoutUser(text: string): string {
  const url = new URL(text);
  url.username = "";
  url.password = "";
  return url.href;
}

/** Reads the server that counts limits for all replicas. Undefined: each replica counts. */
export function readRedis(secret: Secret | undefined, inspection: Inspection): Redis | undefined {
  if (secret === undefined) return undefined;
  const { key, text } = secret;
  const url = readSecretUrl(secret, "redis://user:password@host:6379", inspection);
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
export function databaseName(database: SqliteDatabase | PostgresDatabase): string {
  return database.engine === "sqlite" ? database.path : database.shownUrl;
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

/** A service that offers a pooler in transaction mode. */
interface PoolingService {
  readonly fits: (url: URL) => boolean;
  /** The end of "use the URL of the server itself, or a pooler in session mode: ". */
  readonly instead: (url: URL) => string;
}

const services: readonly PoolingService[] = [
  {
    // https://neon.com/docs/connect/connection-pooling
    fits: ({ hostname }) => /^[^.]+-pooler\./.test(hostname) && hostname.endsWith(".neon.tech"),
    instead: ({ hostname }) =>
      `at Neon the host without -pooler, ${hostname.replace("-pooler.", ".")}`,
  },
  {
    // https://supabase.com/docs/guides/database/connecting-to-postgres
    fits: ({ hostname, port }) => /\.supabase\.(?:com|co)$/.test(hostname) && port === "6543",
    instead: () => "at Supabase the port 5432 in place of 6543",
  },
];

/** The problem with the URL of a known service's pooler in transaction mode. Undefined for any other URL. */
function poolerProblem(url: URL): string | undefined {
  if (!services.some(({ fits }) => fits(url))) return undefined;
  return `is that of a pooler in transaction mode, which tollgate cannot work through: ${useInstead(url)}`;
}

/** The advice for the URL of a pooler in transaction or statement mode. */
export function useInstead(url: URL): string {
  const service = services.find(({ fits }) => fits(url));
  const place = service && `: ${service.instead(url)}`;
  return `use the URL of the server itself, or of a pooler in session mode${place ?? ""}`;
}
