import { SQL } from "bun";
import { afterAll, beforeAll, expect, test } from "bun:test";
import type { ConsoleState } from "../../src/contract/operator/consoleState.ts";
import { PostgresPool } from "../../src/store/postgres/pool.ts";
import { PostgresQueries } from "../../src/store/postgres/queries.ts";
import { knownSchema, versionOf } from "../../src/store/postgres/schema/migrations.ts";
import { StoreError } from "../../src/store/store.ts";
import { binaryPath } from "../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { signIn, startConsole, type ConsolePage } from "../support/binary/consoleProcess.ts";
import { ServingProcess } from "../support/binary/servingProcess.ts";
import { rejectionOf } from "../support/gateway/httpClient.ts";
import { configText, oneModel } from "../support/gateway/gatewayConfig.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import { startPostgres, type PostgresServer } from "../support/servers/postgres.ts";
import { untilAsync } from "../support/until.ts";

const SCHEMA = versionOf(knownSchema);

const goneUrl = "postgres://postgres@127.0.0.1:1/books";

describePostgres("with a hot standby for reports,", () => {
  let primary: PostgresServer;
  let standby: PostgresServer;
  let sql: SQL;
  let standbySql: SQL;
  /** Of a user with few rights. */
  let readerUrl: string;
  let cli: CliFolder;
  beforeAll(async () => {
    primary = await startPostgres();
    sql = new SQL(primary.url(), { max: 2, bigint: true });
    await sql`CREATE DATABASE books`;
    await sql`CREATE DATABASE others`;
    // It cancels reads that are in its way at once.
    standby = await primary.startStandby(["max_standby_streaming_delay=0"]);
    standbySql = new SQL(standby.url("books"), { max: 2, bigint: true });
    await sql`CREATE ROLE reader LOGIN`;
    await sql`GRANT pg_read_all_data TO reader`;
    readerUrl = standby.url("books").replace("postgres@", "reader@");
    cli = await folder(primary.url("books"), readerUrl);
    await cli.json("accounts", "create", "alice");
    await cli.json("balance", "credit", "alice", "100");
    await caughtUp();
  });
  afterAll(async () => {
    await standbySql.close();
    await sql.close();
    for (const one of folders) await one.remove();
    await standby.close();
    await primary.close();
  });

  const folders: CliFolder[] = [];
  const folder = async (url: string, reportsUrl: string): Promise<CliFolder> => {
    const config = oneModel("http://127.0.0.1:9/v1", {
      server: { listen: "127.0.0.1:0" },
      database: { url, reports_url: reportsUrl },
    });
    const made = await openCliFolder(configText(config));
    folders.push(made);
    return made;
  };
  const caughtUp = async (): Promise<void> => {
    // Its commit sends all that is written before.
    await sql`SELECT pg_logical_emit_message(true, 'test', '')`;
    const [row] = await sql`SELECT pg_current_wal_insert_lsn()::text AS place`;
    await untilAsync("the standby has all", async () => {
      const [now] =
        await standbySql`SELECT pg_last_wal_replay_lsn() >= ${row.place}::pg_lsn AS has`;
      return now.has;
    });
  };
  const reports: readonly (readonly string[])[] = [
    ["usage"],
    ["requests"],
    ["balance", "history", "alice"],
    ["audit"],
  ];

  test("commands that report read it, and say how far it is behind", async () => {
    await standbySql`SELECT pg_wal_replay_pause()`;
    await cli.json("balance", "credit", "alice", "5");
    for (const args of reports) {
      const { status, stderr } = await cli.run(...args);
      expect([args, status, stderr]).toEqual([
        args,
        0,
        expect.stringMatching(
          /^reading the standby postgres:\/\/reader@127\.0\.0\.1:\d+\/books: it is up to \d+\.\d s behind$/,
        ),
      ]);
    }
    expect(await cli.json("balance", "history", "alice")).toHaveLength(1);
    // What an operator changes is shown as it is.
    const shown = await cli.run("balance", "show", "alice");
    expect([shown.stderr, shown.stdout]).toEqual(["", expect.stringContaining("105")]);
    await standbySql`SELECT pg_wal_replay_resume()`;
    await caughtUp();
    const { stderr, stdout } = await cli.run("balance", "history", "alice", "--json");
    expect(stderr).toEndWith("/books: it is not behind");
    expect(JSON.parse(stdout)).toHaveLength(2);
  });

  test.each<[string, () => Promise<CliFolder>, string]>([
    [
      "is the database itself",
      () => folder(primary.url("books"), primary.url("books")),
      "it is no standby, because it takes writes: name a hot standby",
    ],
    [
      "has another database",
      () => folder(primary.url("others"), standby.url("books")),
      "it has another database than the url: name a standby of that one",
    ],
    [
      "has no tables",
      () => folder(primary.url("others"), standby.url("others")),
      "it has no tables of tollgate: name a standby of the url",
    ],
    [
      "has an older schema",
      async () => {
        await sql`CREATE DATABASE older TEMPLATE books`;
        const older = new SQL(primary.url("older"), { max: 1 });
        await older`ALTER TABLE schema_version DISABLE TRIGGER USER`;
        await older`UPDATE schema_version SET applied = applied - 1, oldest = 0`;
        await older.close();
        await caughtUp();
        return await folder(primary.url("older"), standby.url("older"));
      },
      `it has schema ${SCHEMA - 1} of ${SCHEMA}: upgrade the database (a start of the gateway does it), and wait until the standby has it`,
    ],
    ["cannot be reached", () => folder(primary.url("books"), goneUrl), "Failed to connect"],
  ])("a report fails where the standby %s", async (_, open, problem) => {
    const { status, stdout, stderr } = await (await open()).run("usage");
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toStartWith("error: the standby postgres://postgres@127.0.0.1:");
    expect(stderr).toContain(`of [database] reports_url cannot be used: ${problem}`);
    expect(stderr).toEndWith("; without reports_url the primary answers reports");
  });

  test("it is not taken for current while the heartbeat of a replica is missing", async () => {
    const books = new SQL(primary.url("books"), { max: 1 });
    const behind = async () => {
      await caughtUp();
      return (await cli.run("usage")).stderr;
    };
    await books`INSERT INTO replicas (name, version, started_at, seen_at, last_batch)
      VALUES ('silent', '1', 0, (extract(epoch FROM now() - interval '11 s') * 1000)::bigint, 0)`;
    expect(await behind()).toContain("it is up to");
    await books`UPDATE replicas SET ended_at = 1 WHERE name = 'silent'`;
    expect(await behind()).toEndWith("it is not behind");
    await books.close();
  });

  test("doctor examines it", async () => {
    const checkOf = async (one: CliFolder) => {
      const { checks } = JSON.parse((await one.run("doctor", "--json")).stdout) as {
        readonly checks: readonly Readonly<Record<"name" | "ok" | "message", unknown>>[];
      };
      return checks.find(({ name }) => name === "standby");
    };
    await caughtUp();
    expect(await checkOf(cli)).toEqual({
      name: "standby",
      ok: true,
      message: `${readerUrl} (schema ${SCHEMA} of ${SCHEMA}): it is not behind`,
    });
    expect(await checkOf(await folder(primary.url("books"), primary.url("books")))).toMatchObject({
      ok: false,
      message: expect.stringContaining("it is no standby"),
    });
  });

  test("a gateway starts while it is down", async () => {
    const { folder: place } = await folder(primary.url("books"), goneUrl);
    const gateway = new ServingProcess([await binaryPath(), "serve"], place);
    await gateway.start();
    expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
    await gateway.stop();
  });

  test("a report works while the primary is gone, and warns", async () => {
    const alone = await folder(goneUrl, standby.url("books"));
    const { status, stderr } = await alone.run("usage");
    expect(status).toBe(0);
    expect(stderr).toStartWith(
      "warning: postgres://postgres@127.0.0.1:1/books gives no answer: whether the standby has the same database is not known\nreading the standby",
    );
  });

  test("a read that it cancels runs again, and after three times says what to set", async () => {
    const others = new SQL(primary.url("others"), { max: 1 });
    await others`CREATE TABLE records AS SELECT n FROM generate_series(1, 100) AS n`;
    await caughtUp();
    const address = { url: standby.url("others"), shownUrl: "postgres://standby/others" };
    const pool = new PostgresPool({ ...address, isStandby: true });
    const queries = new PostgresQueries(pool);
    let runs = 0;
    const isInTheWay = async (): Promise<void> => {
      await others`UPDATE records SET n = n + 1`;
      await others`VACUUM records`;
      await caughtUp();
    };
    const countOften = (times: number) =>
      queries.inSnapshot(async (snapshot) => {
        runs += 1;
        await snapshot.rows("SELECT count(*) FROM records");
        if (runs <= times) await isInTheWay();
        return await snapshot.row<{ count: bigint }>("SELECT count(*) FROM records");
      });
    expect(await countOften(1)).toEqual({ count: 100n });
    runs = 0;
    const refused = await rejectionOf(countOften(9));
    expect(refused).toBeInstanceOf(StoreError);
    expect(String(refused)).toContain(
      "the standby postgres://standby/others of [database] reports_url cannot be used: it cancelled the read 3 times to apply changes of the primary: set hot_standby_feedback = on or a larger max_standby_streaming_delay there",
    );
    expect(runs).toBe(3);
    await pool.close();
    await others.close();
  });

  async function stateOf(page: ConsolePage): Promise<ConsoleState> {
    return (await (await page.get("/api/state")).json()) as ConsoleState;
  }

  test("the console reads it, shows its own changes at once, and goes on without it", async () => {
    const console = await startConsole(cli);
    try {
      const page = await signIn(console);
      const names = async () => {
        const { data } = (await (await page.get("/api/accounts")).json()) as {
          readonly data: readonly { readonly name: string }[];
        };
        return data.map(({ name }) => name).toSorted();
      };
      const { database } = (await stateOf(page)).standby ?? {};
      expect(database).toBe(readerUrl);
      await standbySql`SELECT pg_wal_replay_pause()`;
      // Of another process: it is shown when the standby has it.
      await cli.json("accounts", "create", "bob");
      expect(await names()).toEqual(["alice"]);
      expect((await page.post("/api/accounts", { name: "carol" })).status).toBe(200);
      expect(await names()).toEqual(["alice", "bob", "carol"]);
      expect((await stateOf(page)).standby?.problem).toBe(
        "it does not have the last change of this console yet",
      );
      await standbySql`SELECT pg_wal_replay_resume()`;
      await caughtUp();
      expect((await stateOf(page)).standby).toEqual({
        database: readerUrl,
        behind_ms: 0,
        problem: null,
      });
      await standby.kill();
      expect(await names()).toEqual(["alice", "bob", "carol"]);
      expect((await stateOf(page)).standby?.problem).toContain("cannot be used");
      const audit = await (await page.post("/api/audit")).text();
      expect(audit).toContain("event: error");
      expect(audit).toContain("reports_url cannot be used");
      await standby.start();
      await untilAsync(
        "it is used again",
        async () => (await stateOf(page)).standby?.problem === null,
      );
      expect(await (await page.post("/api/audit")).text()).toContain("event: result");
    } finally {
      await console.stop();
    }
  });
});
