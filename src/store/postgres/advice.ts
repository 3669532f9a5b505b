import type { ServerPlace } from "../../config/schema.ts";
import { errorCode } from "../../lib/systemError.ts";
import { StoreError } from "../storeError.ts";
import { isPoolerSymptom, pooledError } from "./pooler.ts";
import { messageOf, sqlState } from "./writer/failures.ts";

/** What an error says of the database. */
interface ShownPlace extends Pick<ServerPlace, "url" | "shownUrl"> {
  readonly isStandby?: boolean;
}

/** Names for the advice, as SQL has them. */
interface Names {
  readonly user: string;
  readonly database: string;
  readonly host: string;
  /** What the words of the failure say: the first group of `says`. */
  readonly named: string;
}

/** What an operator does about a failure. */
interface Remedy {
  /** The beginning of the server's code, or the code of the client. */
  readonly code: string | readonly string[];
  readonly says?: RegExp;
  readonly advice: (names: Names) => string;
}

const PG_HBA = "pg_hba.conf of the server must have a line for this host, user and database";
const UNKNOWN_AUTHORITY = [
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
];

/** The first that fits counts. https://www.postgresql.org/docs/current/errcodes-appendix.html */
const remedies: readonly Remedy[] = [
  {
    code: "28P01",
    advice: ({ user }) =>
      `correct the user or the password of the URL, or set it: ALTER ROLE ${user} PASSWORD '...'`,
  },
  {
    code: "28000",
    says: /^role .* does not exist/,
    advice: ({ user }) => `make it: CREATE ROLE ${user} LOGIN PASSWORD '...'`,
  },
  {
    code: "28000",
    says: /not permitted to log in/,
    advice: ({ user }) => `allow it: ALTER ROLE ${user} LOGIN`,
  },
  {
    code: "28000",
    says: /no encryption$/,
    advice: ({ user, database }) =>
      `if the server demands TLS, add ?sslmode=verify-full to the URL, else ${PG_HBA}, such as: host ${database} ${user} ADDRESS/32 scram-sha-256`,
  },
  {
    code: "28000",
    says: /pg_hba\.conf/,
    advice: ({ user, database }) =>
      `${PG_HBA}, such as: hostssl ${database} ${user} ADDRESS/32 scram-sha-256`,
  },
  {
    code: "3D000",
    advice: ({ user, database }) =>
      `correct the name in the URL, or make the database: CREATE DATABASE ${database} OWNER ${user}`,
  },
  {
    code: "3F000",
    advice: ({ user }) => missingSchemaAdvice(user),
  },
  {
    code: "42501",
    says: /for database/,
    advice: ({ user, database }) => `allow it: GRANT CONNECT ON DATABASE ${database} TO ${user}`,
  },
  {
    code: "42501",
    says: /for schema (.+)$/,
    advice: ({ user, named }) => schemaRightAdvice(named, user),
  },
  {
    code: "42501",
    says: /(?:must be owner of|permission denied for) (?:table|view|sequence|relation|function)/,
    advice: ({ user }) => foreignOwnerAdvice("OWNER", user),
  },
  {
    code: "53300",
    advice: () => "raise max_connections of the server, or end other clients",
  },
  {
    code: "ERR_POSTGRES_TLS_NOT_AVAILABLE",
    advice: () =>
      "set ssl = on in postgresql.conf, or take sslmode out of the URL if the network is private",
  },
  {
    code: UNKNOWN_AUTHORITY,
    advice: ({ host }) =>
      `the certificate of ${host} is of an authority that is not known here: add &sslrootcert=/path/ca.pem with the authority's certificate to the URL`,
  },
  {
    code: "CERT_HAS_EXPIRED",
    advice: ({ host }) =>
      `renew the certificate of ${host}, or the one of its authority, and reload the server; if they are valid, correct the clock of this machine`,
  },
  {
    code: "CERT_NOT_YET_VALID",
    advice: () => "correct the clock of this machine, or that of who made the certificate",
  },
  {
    code: "ERR_TLS_CERT_ALTNAME_INVALID",
    advice: ({ host }) =>
      `the certificate is not for ${host}: use a name of the certificate as the host of the URL, or sslmode=verify-ca with the sslrootcert of an authority of your own`,
  },
  {
    code: ["ERR_INVALID_ARG_TYPE", "ERR_BORINGSSL"],
    says: /ca ?file/i,
    advice: () => "name a readable PEM file as the sslrootcert of the URL",
  },
  {
    code: "ERR_POSTGRES_CONNECTION_REFUSED",
    advice: ({ host }) =>
      `check that the server runs, that host and port of the URL are right, and that this machine can reach ${host}`,
  },
  {
    code: "ERR_POSTGRES_CONNECTION_TIMEOUT",
    advice: ({ host }) =>
      `check that the server runs, and that no firewall is between it and this machine: ${host}`,
  },
];

/** For a user who may make no tables. PostgreSQL 15 and later give the schema `public` to the owner of the database alone. */
export function schemaRightAdvice(schema: string, user: string): string {
  return `the user must be able to make tables; as the owner of the database or a superuser: GRANT USAGE, CREATE ON SCHEMA ${schema} TO ${user}`;
}

export function missingSchemaAdvice(user: string): string {
  return `no schema of the user's search_path exists: CREATE SCHEMA AUTHORIZATION ${user}, or ALTER ROLE ${user} RESET search_path`;
}

/** For tables that another user has made. */
export function foreignOwnerAdvice(owner: string, user: string): string {
  return `an upgrade needs the owner of the tables: use that user in the URL, or, as a superuser in this database: REASSIGN OWNED BY ${owner} TO ${user}`;
}

/**
 * The error of a database that cannot be used: what failed, and what to do about it if that is known. Undefined for what no
 * operator can mend.
 */
export function serverError(address: ShownPlace, error: unknown): StoreError | undefined {
  if (error instanceof StoreError) return error;
  if (isPoolerSymptom(error)) return pooledError(address, error);
  if (remedyFor(error) === undefined && !isServerState(sqlState(error))) return undefined;
  return unusable(address, error);
}

/** The StoreError for any failure of a connection, also one that the server did not send. */
export function connectionError(address: ShownPlace, error: unknown): StoreError {
  return serverError(address, error) ?? unusable(address, error);
}

/** The beginning of an error. */
export function cannotBeUsed({ isStandby, shownUrl }: Omit<ShownPlace, "url">): string {
  return isStandby
    ? `the standby ${shownUrl} of [database] reports_url cannot be used`
    : `the database ${shownUrl} cannot be used`;
}

/** What failed, and what to do about it if that is known. */
export function reasonOf(place: Pick<ShownPlace, "url">, error: unknown): string {
  const message = messageOf(error);
  const remedy = remedyFor(error);
  if (remedy === undefined) return message;
  const { username, pathname, hostname } = new URL(place.url);
  const advice = remedy.advice({
    user: sqlName(decodeURIComponent(username)),
    database: sqlName(decodeURIComponent(pathname.slice(1))),
    host: hostname,
    named: remedy.says?.exec(message)?.[1] ?? "",
  });
  return `${message}; ${advice}`;
}

function unusable(place: ShownPlace, error: unknown): StoreError {
  return new StoreError(`${cannotBeUsed(place)}: ${reasonOf(place, error)}`, { cause: error });
}

function remedyFor(error: unknown): Remedy | undefined {
  const found = sqlState(error) ?? errorCode(error);
  const message = messageOf(error);
  return remedies.find(
    ({ code, says }) => [code].flat().includes(found ?? "") && (says?.test(message) ?? true),
  );
}

/** A plain name, or a quoted one. */
export function sqlName(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`;
}

/** What an operator of the server must mend: refused passwords, missing rights and databases, full disks, time-outs. */
function isServerState(state: string | undefined): boolean {
  return state !== undefined && /^(?:25006|28|3D|3F|42501|53|55|57|58|XX)/.test(state);
}
