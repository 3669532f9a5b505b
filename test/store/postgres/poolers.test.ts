import { SQL } from "bun";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openServerStore } from "../../../src/store/open.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { ServingProcess } from "../../support/binary/servingProcess.ts";
import { binaryPath } from "../../support/binary/binary.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { configText, oneModel } from "../../support/gateway/gatewayConfig.ts";
import { completion } from "../../support/provider/chatAnswers.ts";
import { json, startProvider } from "../../support/provider/scriptedProvider.ts";
import { describePgbouncer } from "../../support/servers/describeServers.ts";
import { startPgbouncer, type Pgbouncer } from "../../support/servers/pgbouncer.ts";
import { freshDatabase, type TestDatabase } from "../../support/servers/postgres.ts";
import { several } from "../../support/several.ts";
import { untilAsync } from "../../support/until.ts";

const timeoutMs = 60_000;
const REFUSED =
  "is behind a pooler in transaction or statement mode, such as PgBouncer's pool_mode = transaction: use the URL of the server itself, or of a pooler in session mode";

describePgbouncer.each(["transaction", "statement"] as const)("a pooler in %s mode", (mode) => {
  let database: TestDatabase;
  let pooler: Pgbouncer;
  let url: string;
  let cli: CliFolder;
  beforeAll(async () => {
    database = await freshDatabase();
    pooler = await startPgbouncer(mode, Number(new URL(database.url).port));
    url = pooler.through(database.url);
    cli = await openCliFolder(configText(oneModel("http://127.0.0.1:9/v1", { database: { url } })));
  }, timeoutMs);
  afterAll(async () => {
    await cli.remove();
    await pooler[Symbol.asyncDispose]();
    await database.drop();
  });

  test.each<[string, string[]]>([
    ["serve", []],
    ["migrate-schema", []],
    ["migrate-schema", ["--plan"]],
    ["accounts", ["create", "alice"]],
    ["audit", []],
  ])("is refused in one sentence: %s %j", async (command, more) => {
    expect(await cli.run(command, ...more)).toEqual({
      status: 1,
      stdout: "",
      stderr: `error: the database ${url} ${REFUSED}`,
    });
  });

  test.each<readonly string[]>([["doctor"], ["check", "--live"]])(
    "is told: %s %s",
    async (...args) => {
      const { status, stdout } = await cli.run(...args);
      expect(status).toBe(1);
      expect(stdout).toContain(`${url} ${REFUSED}`);
    },
  );

  test("leaves nothing behind", async () => {
    await using sql = new SQL(database.url, { max: 1 });
    const tables = await sql`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`;
    expect(tables).toHaveLength(0);
  });

  // With such traffic the pooler may be found only after the schema was made.
  test("is found while others take and return its connections", async () => {
    await using busy = new SQL(url, { max: 4, idleTimeout: 1 });
    const opening = { isOver: false };
    const traffic = several(4, async () => {
      while (!opening.isOver) await busy.unsafe("SELECT 1");
    });
    const opened = await Promise.allSettled(
      several(8, () => openServerStore({ url, shownUrl: "the url" })),
    );
    opening.isOver = true;
    await Promise.all(traffic);
    expect(opened.map(({ status }) => status)).toEqual(several(8, () => "rejected"));
  });
});

describePgbouncer("a pooler in session mode", () => {
  test(
    "works: a key is made, serves a chat, and is revoked",
    async () => {
      await using database = await freshDatabase();
      await using pooler = await startPgbouncer("session", Number(new URL(database.url).port));
      const provider = startProvider();
      provider.answer = json(completion());
      const cli = await openCliFolder(
        configText(
          oneModel(`http://127.0.0.1:${provider.port}/v1`, {
            database: { url: pooler.through(database.url) },
          }),
        ),
      );
      const gateway = new ServingProcess([await binaryPath(), "serve"], cli.folder);
      try {
        await gateway.start();
        const key = (await cli.json("keys", "create", "--account", "alice")) as {
          id: string;
          key: string;
        };
        await cli.json("balance", "credit", "alice", "10");
        const status = async () => (await chat(gateway, { key: key.key })).status;
        expect(await status()).toBe(200);
        await cli.json("keys", "revoke", key.id);
        await untilAsync("the key is revoked", async () => (await status()) === 401);
        expect(await cli.json("audit")).toMatchObject({ ok: true });
        expect((await cli.run("check", "--live")).stdout).toContain("PostgreSQL ");
      } finally {
        await gateway.stop();
        await cli.remove();
        provider.stop();
      }
    },
    timeoutMs,
  );

  test(
    "that changes to transaction mode behind a replica ends it in one sentence",
    async () => {
      await using database = await freshDatabase();
      const serverPort = Number(new URL(database.url).port);
      const pooler = await startPgbouncer("session", serverPort);
      const url = pooler.through(database.url);
      const cli = await openCliFolder(
        configText(oneModel("http://127.0.0.1:9/v1", { database: { url } })),
      );
      const gateway = new ServingProcess([await binaryPath(), "serve"], cli.folder);
      try {
        await gateway.start();
        await pooler[Symbol.asyncDispose]();
        await using _changed = await startPgbouncer("transaction", serverPort, pooler.port);
        expect(await gateway.ended).toBe(1);
        expect(gateway.log.find(({ event }) => event === "database_failed")).toMatchObject({
          problem: `the database ${url} ${REFUSED}`,
        });
      } finally {
        await cli.remove();
      }
    },
    timeoutMs,
  );
});
