import { SQL } from "bun";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "../../../src/lib/clock.ts";
import { openReplica, openServerStore } from "../../../src/store/open.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { startPostgres, type PostgresServer } from "../../support/servers/postgres.ts";
import { until, untilAsync } from "../../support/until.ts";

const ignore = (): void => {};

/** Users of Tollgate need a password, as on most servers. */
const PASSWORDS_NEEDED = `host all postgres 127.0.0.1/32 trust
host all all 127.0.0.1/32 scram-sha-256
`;

describePostgres("a replica whose URL is in a file", () => {
  let folder: string;
  let file: string;
  let server: PostgresServer;
  let sql: SQL;
  let replica: Awaited<ReturnType<typeof openReplica>>;
  const told: string[] = [];
  const changed: (number | undefined)[] = [];
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-logins-"));
    await chmod(folder, 0o755);
    file = join(folder, "url");
    const rules = join(folder, "pg_hba.conf");
    await writeFile(rules, PASSWORDS_NEEDED);
    server = await startPostgres([`hba_file=${rules}`]);
    sql = new SQL(server.url(), { max: 2, bigint: true });
  });
  afterAll(async () => {
    await sql.close();
    await server.close();
    await rm(folder, { recursive: true });
  });
  beforeEach(async () => {
    await sql.unsafe(`CREATE ROLE one SUPERUSER LOGIN PASSWORD 'first';
      CREATE ROLE two SUPERUSER LOGIN PASSWORD 'sec@nd'`);
    await sql`CREATE DATABASE books`;
    const url = urlOf("one", "first");
    await writeFile(file, `${url}\n`);
    replica = await openReplica(
      { url, shownUrl: "postgres://server/books", urlFile: file },
      {
        name: "höst.example",
        version: "1",
        clock: systemClock,
        listener: {
          onChanged: (accountId) => changed.push(accountId),
          onWanted: ignore,
          onError: ignore,
          onLost: ignore,
          onJoined: ignore,
          onOutdated: ignore,
          onEnded: ignore,
          onClockSkew: ignore,
          onLocked: () => undefined,
          onCommit: ignore,
          onUnusableFile: (problem) => told.push(problem),
          onFatal: ignore,
        },
      },
    );
  });
  afterEach(async () => {
    await replica.close();
    await sql.unsafe("DROP DATABASE books WITH (FORCE)");
    await sql.unsafe("DROP ROLE one; DROP ROLE two");
    told.length = 0;
  });

  const urlOf = (user: string, password: string, name = "books"): string =>
    `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${server.port}/${name}`;
  const write = () => replica.writer.write({ kind: "probe" });
  const logins = async (): Promise<readonly { name: string; user: string }[]> =>
    await sql`SELECT DISTINCT application_name AS name, usename AS user FROM pg_stat_activity
      WHERE datname = 'books'`;
  const cutAll = () =>
    sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'books'`;
  const works = async (): Promise<boolean> => {
    try {
      await write();
      await replica.store.accounts.list();
      return replica.lease.isValid;
    } catch {
      return false;
    }
  };

  test("takes user and password of each new connection from it", async () => {
    await write();
    expect(await logins()).toEqual([{ name: "tollgate/h?st.example", user: "one" }]);
    await writeFile(file, urlOf("two", "sec@nd"));
    await sql.unsafe("ALTER ROLE one NOLOGIN");
    // Open connections stay.
    await write();
    await cutAll();
    await untilAsync("all work with the new user", works);
    // The connection for notifications tells the account. Other looks know only that something has changed.
    await untilAsync("changes are told", async () => {
      const command = await openServerStore({ url: urlOf("two", "sec@nd"), shownUrl: "books" });
      const { id } = await command.admin.createAccount(
        { name: "t", command: "test", at: 1 },
        crypto.randomUUID(),
        0n,
      );
      await command.close();
      await Bun.sleep(100);
      return changed.includes(id);
    });
    expect(await logins()).toEqual([{ name: "tollgate/h?st.example", user: "two" }]);
    expect(told).toEqual([]);
  });

  test.each([
    ["has no URL", async () => writeFile(file, "canary"), "must be a URL such as"],
    ["is gone", async () => rm(file), "the file cannot be read: no such file"],
    [
      "names another database",
      async () => writeFile(file, urlOf("one", "first", "others")),
      "names another server, database or parameters than at the start",
    ],
  ])("makes no connection while it %s, says so, and goes on later", async (_, spoil, problem) => {
    await write();
    await spoil();
    await cutAll();
    await until("it is told", () => told.length > 0);
    expect(await works()).toBe(false);
    expect(told[0]).toStartWith(`${file}: ${problem}`);
    expect(told.join()).not.toContain("canary");
    await writeFile(file, urlOf("one", "first"));
    await untilAsync("it works again", works);
  });
});
