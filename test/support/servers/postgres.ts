import { SQL } from "bun";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { chown, mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { emptied, newStateOf, type NewState } from "./emptyDatabase.ts";
import { freePort, ServerProcess } from "./serverProcess.ts";

/** The URL of a server that other processes share: `scripts/ci.ts` starts one for all test files. */
export const SHARED_POSTGRES = "TOLLGATE_TEST_POSTGRES";

const debianFolder = "/usr/lib/postgresql";
const USER = "postgres";
const isRoot = process.getuid?.() === 0;

/** Enough for three test files at once with three replicas each. Nothing here survives a crash of the machine. */
const settings = [
  "listen_addresses=127.0.0.1",
  "unix_socket_directories=",
  "max_connections=300",
  "shared_buffers=32MB",
  "fsync=off",
  "full_page_writes=off",
  "logging_collector=off",
  "log_destination=stderr",
];

/** A PostgreSQL server of a test. */
export interface PostgresServer {
  /** Starts a hot standby that follows this server. Close it before this one. */
  startStandby(more?: readonly string[]): Promise<PostgresServer>;
  readonly port: number;
  /** Of the user `postgres`, who has no password. */
  url(database?: string): string;
  /** Ends the server in order and starts it again. Open connections are closed. */
  restart(): Promise<void>;
  /** Ends the server as `pg_ctl stop` does in this mode: open connections are closed at once. Its data stay. */
  stop(mode: "fast" | "immediate"): Promise<void>;
  /** Ends the server as a crash does. `start` recovers its data. */
  kill(): Promise<void>;
  start(): Promise<void>;
  /** Stops the server's first process: new connections get no answer. Open connections have processes of their own. */
  pause(): void;
  resume(): void;
  /** Ends the server and removes its data. */
  close(): Promise<void>;
}

/** A database of a test. `await using` drops it at the end of the block. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string;
  /** Ends all its connections. Removes it, or empties it for the next test. */
  drop(): Promise<void>;
}

/** Starts a server with data of its own. `more`: settings such as `synchronous_commit=off`. */
export async function startPostgres(more: readonly string[] = []): Promise<PostgresServer> {
  return await startServer(initialize, more);
}

/** Makes the data of a server: with which words a command begins, where the programs are, and where the data go. */
type MakeData = (prefix: readonly string[], folder: string, data: string) => Promise<void>;

async function startServer(makeData: MakeData, more: readonly string[]): Promise<PostgresServer> {
  if (programs === undefined || postgresMissing !== undefined) throw new Error(postgresMissing);
  const folder = await mkdtemp(join(tmpdir(), "tollgate-postgres-"));
  const prefix = await commandPrefix(folder);
  const data = join(folder, "data");
  await makeData(prefix, programs, data);
  const port = freePort();
  const options = [...settings, `port=${port}`, ...more].flatMap((setting) => ["-c", setting]);
  const url = (database = USER): string => `postgres://${USER}@127.0.0.1:${port}/${database}`;
  const server = new ServerProcess({
    command: [...prefix, join(programs, "postgres"), "-D", data, ...options],
    folder,
    // A fast shutdown.
    endSignal: "SIGINT",
    isReady: () => answers(url()),
  });
  await server.start();
  return {
    port,
    url,
    startStandby: (own = []) => startServer((...place) => copyOf(url(), ...place), own),
    async restart() {
      await server.end();
      await server.start();
    },
    // https://www.postgresql.org/docs/current/server-shutdown.html
    stop: (mode) => server.end(mode === "fast" ? "SIGINT" : "SIGQUIT"),
    start: () => server.start(),
    kill: () => server.kill(),
    pause: () => server.pause(),
    resume: () => server.resume(),
    close: () => server.close(),
  };
}

/** A new database without tables on the shared server. */
export async function freshDatabase(): Promise<TestDatabase> {
  const server = await sharedUrl();
  const url = await createDatabase(server, "template1");
  return droppedBy(url, () => removeDatabase(server, url));
}

/** The databases that are as `databaseFrom` made them and that no test uses, by the name of their template. */
const unused = new Map<string, [url: string, state: NewState][]>();

/**
 * A copy of the database that `prepare` has made once on the shared server. Its connections must be closed when `prepare`
 * resolves. `name`: small letters, digits and underscores, one for each content. To empty a copy costs a sixth of making
 * and removing one, so a copy serves one test after another, until a test changes its schema or makes it large.
 */
export async function databaseFrom(
  name: string,
  prepare: (url: string) => Promise<void>,
): Promise<TestDatabase> {
  const server = await sharedUrl();
  const kept = unused.get(name) ?? [];
  unused.set(name, kept);
  const [url, state] = kept.pop() ?? (await copyOfTemplate(server, name, prepare));
  return droppedBy(url, async () => {
    if (await emptied(url, state)) kept.push([url, state]);
    else await removeDatabase(server, url);
  });
}

async function copyOfTemplate(
  server: string,
  name: string,
  prepare: (url: string) => Promise<void>,
): Promise<[url: string, state: NewState]> {
  await ask(server, async (sql) => {
    // Several processes may share the server: the first one makes the template.
    await sql`SELECT pg_advisory_lock(hashtext(${name}))`;
    const [found] = await sql`SELECT 1 FROM pg_database WHERE datname = ${name}`;
    if (found !== undefined) return;
    const draft = `${name}_${randomBytes(4).toString("hex")}`;
    await sql.unsafe(`CREATE DATABASE ${draft}`);
    await prepare(urlOf(server, draft));
    await sql.unsafe(`ALTER DATABASE ${draft} RENAME TO ${name}`);
  });
  const url = await createDatabase(server, name);
  return [url, await newStateOf(url)];
}

/** Drops it once, however often a test asks for that. */
function droppedBy(url: string, end: () => Promise<void>): TestDatabase {
  let dropped: Promise<void> | undefined;
  const drop = (): Promise<void> => (dropped ??= end());
  return { url, drop, [Symbol.asyncDispose]: drop };
}

let shared: Promise<string> | undefined;

function sharedUrl(): Promise<string> {
  const given = process.env[SHARED_POSTGRES];
  return (shared ??= given ? Promise.resolve(given) : startPostgres().then((own) => own.url()));
}

async function createDatabase(server: string, template: string): Promise<string> {
  const name = `test_${randomBytes(8).toString("hex")}`;
  await ask(server, (sql) => sql.unsafe(`CREATE DATABASE ${name} TEMPLATE ${template}`));
  return urlOf(server, name);
}

async function removeDatabase(server: string, url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  await ask(server, (sql) => sql.unsafe(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
}

function urlOf(server: string, database: string): string {
  const url = new URL(server);
  url.pathname = `/${database}`;
  return url.href;
}

/** One connection for one piece of work. */
async function ask<T>(url: string, work: (sql: SQL) => Promise<T>): Promise<T> {
  const sql = new SQL(url, { max: 1, connectionTimeout: 10 });
  try {
    return await work(sql);
  } finally {
    await sql.close();
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    await ask(url, (sql) => sql`SELECT 1`);
    return true;
  } catch {
    return false;
  }
}

const programs = postgresFolder();

/** Why no server can be started here, and what to do. Undefined: one can. */
export const postgresMissing: string | undefined = whyMissing();

/** The folder with `initdb` and `postgres`: of the path, else the newest that Debian has installed. */
function postgresFolder(): string | undefined {
  const named = Bun.which("initdb");
  if (named !== null) return dirname(realpathSync(named));
  if (!existsSync(debianFolder)) return undefined;
  const versions = readdirSync(debianFolder).toSorted(
    (one, other) => Number.parseInt(other) - Number.parseInt(one),
  );
  const folders = versions.map((version) => join(debianFolder, version, "bin"));
  return folders.find((folder) => existsSync(join(folder, "initdb")));
}

function whyMissing(): string | undefined {
  if (programs === undefined) return "install PostgreSQL, such as `apt-get install postgresql`";
  if (!isRoot) return undefined;
  // PostgreSQL refuses to run as root.
  if (Bun.which("setpriv") === null)
    return "run them as another user than root, or install util-linux";
  return systemUser() === undefined
    ? "run them as another user than root, or create the user postgres"
    : undefined;
}

/** What a command begins with, so that it runs as the owner of this folder. */
async function commandPrefix(folder: string): Promise<readonly string[]> {
  const user = isRoot ? systemUser() : undefined;
  if (user === undefined) return [];
  await chown(folder, user.uid, user.gid);
  return ["setpriv", `--reuid=${user.uid}`, `--regid=${user.gid}`, "--clear-groups"];
}

function systemUser(): { readonly uid: number; readonly gid: number } | undefined {
  const line = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .find((text) => text.startsWith(`${USER}:`));
  const [, , uid, gid] = line?.split(":") ?? [];
  return uid === undefined ? undefined : { uid: Number(uid), gid: Number(gid) };
}

/** The data of a standby that follows the server at this URL. */
async function copyOf(
  url: string,
  prefix: readonly string[],
  folder: string,
  data: string,
): Promise<void> {
  const basic = ["-D", data, "-d", url, "--checkpoint=fast", "--write-recovery-conf", "--no-sync"];
  const command = [...prefix, join(folder, "pg_basebackup"), ...basic];
  const child = Bun.spawn(command, { cwd: "/", stdio: ["ignore", "ignore", "pipe"] });
  const problem = await new Response(child.stderr).text();
  if ((await child.exited) !== 0) throw new Error(`pg_basebackup failed: ${problem}`);
}

/** The order of texts is not the one of their bytes, if possible: a query that relies on that order fails here first. */
async function initialize(prefix: readonly string[], folder: string, data: string): Promise<void> {
  const order = ["--locale-provider=icu", "--icu-locale=en-US"];
  const basic = ["-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
  let problem = "";
  // Versions before 15, and some builds, have no ICU.
  for (const more of [order, []]) {
    const command = [...prefix, join(folder, "initdb"), ...basic, ...more];
    const child = Bun.spawn(command, { cwd: "/", stdio: ["ignore", "ignore", "pipe"] });
    problem = await new Response(child.stderr).text();
    if ((await child.exited) === 0) return;
  }
  throw new Error(`initdb failed: ${problem}`);
}
