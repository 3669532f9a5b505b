import type { SQL } from "bun";
import { StoreError } from "../storeError.ts";

const serverSettings = [
  "synchronous_commit",
  "synchronous_standby_names",
  "default_transaction_read_only",
  "fsync",
  "full_page_writes",
] as const;
type ServerSetting = (typeof serverSettings)[number];

/** What decides whether a server can keep the records. */
export interface ServerKind {
  /** For example 15.8. */
  readonly version: string;
  readonly majorVersion: number;
  /** The settings in force for this user and this database, by name. */
  readonly settings: Readonly<Record<ServerSetting, string>>;
  readonly isStandby: boolean;
}

const MAJOR_VERSION_MIN = 14;

export async function readServerKind(sql: SQL): Promise<ServerKind> {
  const settings = serverSettings.map((name) => `current_setting('${name}') AS ${name}`);
  const [row] = await sql.unsafe<
    (Record<ServerSetting, string> & {
      readonly version: string;
      readonly number: string;
      readonly is_standby: boolean;
    })[]
  >(
    `SELECT split_part(current_setting('server_version'), ' ', 1) AS version,
      current_setting('server_version_num') AS number, pg_is_in_recovery() AS is_standby, ${settings.join(", ")}`,
  );
  if (row === undefined) throw new Error("no answer");
  const { version, number, is_standby: isStandby, ...found } = row;
  const majorVersion = Math.floor(Number(number) / 10_000);
  return { version, majorVersion, settings: found, isStandby };
}

/** Why a gateway refuses to start on this server. */
export function durabilityProblems(server: ServerKind): readonly string[] {
  const { version, majorVersion, settings, isStandby } = server;
  const problems: string[] = [];
  if (majorVersion < MAJOR_VERSION_MIN)
    problems.push(`PostgreSQL ${version} is too old: use version ${MAJOR_VERSION_MIN} or later`);
  if (isStandby)
    problems.push("the server is a standby and cannot be written: use the URL of the primary");
  else if (settings.default_transaction_read_only === "on")
    problems.push("default_transaction_read_only is on: nothing can be written; set it to off");
  if (settings.synchronous_commit === "off")
    problems.push(
      "synchronous_commit is off: a crash of the server would lose charges; set it to on",
    );
  return problems;
}

/** Throws StoreError for a server that is too old, cannot be written, or forgets what it has committed. */
export async function requireDurableServer(sql: SQL): Promise<void> {
  const [first, ...more] = durabilityProblems(await readServerKind(sql));
  if (first !== undefined) throw new StoreError([first, ...more].join("; "));
}
