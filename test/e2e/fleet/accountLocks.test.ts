import { SQL } from "bun";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { startFleet, type Fleet } from "../../support/fleet/fleet.ts";
import { startSteadyLoad, statusesOf, timesOf } from "../../support/fleet/steadyLoad.ts";
import { chat, type Reply } from "../../support/gateway/chatCalls.ts";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import { completion } from "../../support/provider/chatAnswers.ts";
import { json, startProvider } from "../../support/provider/scriptedProvider.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { freshDatabase, type TestDatabase } from "../../support/servers/postgres.ts";
import { testedProcesses } from "../../support/testedEngines.ts";
import { until } from "../../support/until.ts";
import { sample } from "../../support/sample.ts";

const timeoutMs = 90_000;
const holdMs = 4000;
/** Nobody else waits for the end of the lock. A busy machine takes a second for a command by itself. */
const othersWithinMs = 3000;
/** The writer reports a failure of the whole store after about 10 s. One account is no such failure. */
const longHoldMs = 12_000;
/** A locked account is tried again each 200 ms. */
const afterwardsMs = 3500;

/** docs/run/postgresql.md says so. */
const connectionsOfAReplica = 7;

/** What another process does in a transaction that it leaves open. `$x`: the row id of the account x. */
const locks: readonly (readonly [what: string, sql: string, othersWithinMs?: number])[] = [
  ["the account", "SELECT 1 FROM accounts WHERE id = $x FOR NO KEY UPDATE"],
  ["a key", "SELECT 1 FROM keys WHERE account_id = $x FOR UPDATE"],
  ["a new budget", "UPDATE keys SET budget = 1000000000000 WHERE account_id = $x"],
  // The writer does not lock these by themselves: it finds out by trying.
  ["its reserves", "SELECT 1 FROM reserves WHERE account_id = $x FOR UPDATE"],
  ["its totals", "SELECT 1 FROM daily_totals WHERE account_id = $x FOR UPDATE"],
  ["all accounts", "LOCK TABLE accounts IN ACCESS EXCLUSIVE MODE", holdMs + afterwardsMs],
];

describePostgres("two replicas", () => {
  const provider = startProvider(
    json(completion({ usage: { prompt_tokens: 5, completion_tokens: 7 } })),
  );
  let database: TestDatabase;
  let fleet: Fleet;
  let byHand: SQL;
  let accountId = 0n;
  let x: string;
  let y: string;
  beforeAll(async () => {
    database = await freshDatabase();
    fleet = await startFleet({
      databaseUrl: database.url,
      serverPort: Number(new URL(database.url).port),
      replicas: 2,
      config: oneModel(`http://127.0.0.1:${provider.port}/v1`),
    });
    fleet.auditor.listenTo(provider);
    [x, y] = [await fleet.key("x", "1000"), await fleet.key("y", "1000")];
    byHand = new SQL(database.url, { max: 1, bigint: true });
    [{ id: accountId }] = await byHand`SELECT id FROM accounts WHERE name = 'x'`;
  }, timeoutMs);
  afterAll(async () => {
    await byHand.close();
    await fleet[Symbol.asyncDispose]();
    provider.stop();
    await database.drop();
  });

  /** Clients of both accounts at both replicas. Resolves when each was answered. */
  const loadOfBoth = async () => {
    const load = startSteadyLoad(fleet, [
      { account: "x", key: x, clients: 2 },
      { account: "y", key: y, clients: 2 },
    ]);
    await until("both accounts are served", () => load.answers.length > 20);
    return load;
  };
  /** Leaves a transaction open that has run this, while `meanwhile` runs. */
  const whileOpen = async (sql: string, meanwhile: () => Promise<unknown>) => {
    const connection = await byHand.reserve();
    try {
      await connection.unsafe("BEGIN");
      await connection.unsafe(sql.replace("$x", String(accountId)));
      await meanwhile();
    } finally {
      await connection.unsafe("ROLLBACK");
      await connection.release();
    }
  };
  const credit = async () => (await fleet.cli.run("balance", "credit", "y", "0.001")).status;

  for (const [what, sql, withinMs = othersWithinMs] of sample(locks, 2, ([what]) => what))
    test(
      `serve all others while another process has locked ${what}`,
      async () => {
        const load = await loadOfBoth();
        let credited: Promise<number> = Promise.resolve(1);
        let creditedMs = NaN;
        await whileOpen(sql, async () => {
          const beganMs = performance.now();
          credited = credit().finally(() => (creditedMs = performance.now() - beganMs));
          await Bun.sleep(holdMs);
        });
        await Bun.sleep(200);
        await load.end();
        expect(await credited).toBe(0);
        expect(creditedMs).toBeLessThan(withinMs);
        expect(new Set(load.health)).toEqual(new Set([200]));
        expect([statusesOf(load.answers, "y"), statusesOf(load.answers, "x")]).toEqual([
          [200],
          [200],
        ]);
        expect(timesOf(load.answers, "y").mostMs).toBeLessThan(withinMs);
        expect(timesOf(load.answers, "x").lastMs).toBeLessThan(holdMs + afterwardsMs);
      },
      timeoutMs,
    );

  test(
    "refuse an account that stays locked, and only that one",
    async () => {
      const z = await fleet.key("z", "1000");
      const load = await loadOfBoth();
      const sql = "SELECT 1 FROM accounts WHERE id = $x OR name = 'z' FOR UPDATE";
      const refused: Reply[] = [];
      let credited = 1;
      await whileOpen(sql, async () => {
        const asked = fleet.replicas.map(({ process }) => chat(process, { key: z }));
        await Bun.sleep(longHoldMs);
        refused.push(...(await Promise.all(asked)));
        credited = await credit();
      });
      await load.end();
      for (const { status, headers } of refused)
        expect([status, headers.get("retry-after")]).toEqual([502, expect.stringMatching(/^\d+$/)]);
      expect(credited).toBe(0);
      expect(new Set(load.health)).toEqual(new Set([200]));
      expect(statusesOf(load.answers, "y")).toEqual([200]);
      expect(timesOf(load.answers, "y").mostMs).toBeLessThan(othersWithinMs);
      for (const { status, retryAfter } of load.answers)
        expect(status === 200 || (status === 502 && retryAfter !== null)).toBe(true);
      for (const { process } of fleet.replicas) {
        expect((await chat(process, { key: z })).status).toBe(200);
        expect((await chat(process, { key: x })).status).toBe(200);
      }
    },
    timeoutMs,
  );

  for (const isStopped of sample([true, false], 1))
    test(
      `go on when one of them ${isStopped ? "stands still" : "is cut off"} inside a transaction`,
      async () => {
        const [still, other] = fleet.replicas;
        if (still === undefined || other === undefined)
          throw new Error("the fleet has two replicas");
        // Both have a reserve, so that no request needs the replica that stands still.
        await (await loadOfBoth()).end();
        const swallowed = still.proxy.swallowCommit();
        const late = chat(still.process, { key: x });
        await swallowed;
        if (isStopped) still.process.signal("SIGSTOP");
        const load = startSteadyLoad({ ...fleet, replicas: [other] }, [
          { account: "x", key: x, clients: 2 },
          { account: "y", key: y, clients: 2 },
        ]);
        await Bun.sleep(3000);
        await load.end();
        if (isStopped) still.process.signal("SIGCONT");
        expect((await late).status).toBe(200);
        expect(new Set(load.health)).toEqual(new Set([200]));
        expect([statusesOf(load.answers, "y"), statusesOf(load.answers, "x")]).toEqual([
          [200],
          [200],
        ]);
        expect(timesOf(load.answers, "y").mostMs).toBeLessThan(othersWithinMs);
        // The server ends a transaction that stands still after a second.
        expect(timesOf(load.answers, "x").lastMs).toBeLessThan(4000);
      },
      timeoutMs,
    );

  test(
    "keep up to seven connections each under load",
    async () => {
      const load = await loadOfBoth();
      let most = 0;
      for (let looks = 0; looks < 50; looks += 1) {
        const [row] = await byHand`SELECT count(*)::int AS count FROM pg_stat_activity
          WHERE datname = current_database() AND pid <> pg_backend_pid()`;
        most = Math.max(most, Number(row.count));
        await Bun.sleep(10);
      }
      await load.end();
      expect(most).toBeLessThanOrEqual(2 * testedProcesses * connectionsOfAReplica);
    },
    timeoutMs,
  );

  test(
    "have charged each whole answer once",
    async () => {
      expect(await fleet.problems()).toEqual([]);
    },
    timeoutMs,
  );
});
