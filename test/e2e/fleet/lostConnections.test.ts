import { SQL } from "bun";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { startFleet, type Fleet } from "../../support/fleet/fleet.ts";
import { startSteadyLoad, statusesOf, timesOf } from "../../support/fleet/steadyLoad.ts";
import { call, chat } from "../../support/gateway/chatCalls.ts";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import { completion } from "../../support/provider/chatAnswers.ts";
import { json, startProvider } from "../../support/provider/scriptedProvider.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { startPostgres, type PostgresServer } from "../../support/servers/postgres.ts";
import { until } from "../../support/until.ts";
import { sample } from "../../support/sample.ts";

const timeoutMs = 60_000;
const goneMs = 5000;
const askedAtOnce = 4;
const idleRounds = 3;

describePostgres("two replicas lose no request", () => {
  const provider = startProvider(
    json(completion({ usage: { prompt_tokens: 5, completion_tokens: 7 } })),
  );
  let postgres: PostgresServer;
  let fleet: Fleet;
  let key: string;
  beforeAll(async () => {
    // A crash of the server must not lose what it has committed.
    postgres = await startPostgres(["fsync=on"]);
    fleet = await startFleet({
      databaseUrl: postgres.url(),
      serverPort: postgres.port,
      replicas: 2,
      config: oneModel(`http://127.0.0.1:${provider.port}/v1`),
    });
    fleet.auditor.listenTo(provider);
    key = await fleet.key("alice", "1000");
  }, timeoutMs);
  afterAll(async () => {
    await fleet[Symbol.asyncDispose]();
    provider.stop();
    await postgres.close();
  });

  /** At each replica some chats and some reads, which use all of its connections. */
  const ask = async (keyOf = key): Promise<readonly number[]> => {
    const { auditor, replicas } = fleet;
    const asked = replicas.flatMap(({ process: { url } }) =>
      Array.from({ length: askedAtOnce }, () => [
        chat({ url, auditor }, { key: keyOf }),
        call({ url }, { key: keyOf }, { path: "/v1/requests" }),
      ]).flat(),
    );
    return (await Promise.all(asked)).map(({ status }) => status);
  };
  const health = () =>
    Promise.all(
      fleet.replicas.map(async ({ process }) => (await fetch(`${process.url}/healthz`)).status),
    );
  const everyProxy = (what: "reset" | "expire") => () =>
    fleet.replicas.forEach(({ proxy }) => proxy[what]());

  /** What closes the idle connections of both replicas. */
  const closed: readonly (readonly [what: string, close: () => Promise<void> | void])[] = [
    ["a restart of PostgreSQL", () => postgres.restart()],
    ["a proxy that resets them", everyProxy("reset")],
    ["a proxy that forgets them", everyProxy("expire")],
    [
      "an operator who ends them",
      () =>
        bySuperuser(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        ),
    ],
  ];
  for (const [at, [what, close]] of sample(closed, 2, ([what]) => what).entries())
    test(
      `whose connections were closed while they were idle, by ${what}`,
      async () => {
        // Nothing is reserved for it: its first request needs the server.
        const fresh = await fleet.key(`fresh-${at}`, "1000");
        expect(new Set(await ask())).toEqual(new Set([200]));
        await close();
        expect(new Set(await ask(fresh))).toEqual(new Set([200]));
        expect(new Set(await ask())).toEqual(new Set([200]));
        expect(await health()).toEqual([200, 200]);
      },
      timeoutMs,
    );

  test(
    "where the server ends sessions that are idle for a second",
    async () => {
      await bySuperuser("ALTER SYSTEM SET idle_session_timeout = '1s'");
      await bySuperuser("SELECT pg_reload_conf()");
      const seen: number[] = [];
      for (let round = 0; round < idleRounds; round += 1) {
        seen.push(...(await ask()), ...(await health()));
        // The pause is what closes them.
        await Bun.sleep(1300);
      }
      seen.push(...(await ask()), ...(await health()));
      await bySuperuser("ALTER SYSTEM RESET idle_session_timeout");
      await bySuperuser("SELECT pg_reload_conf()");
      expect(new Set(seen)).toEqual(new Set([200]));
    },
    timeoutMs,
  );

  const setStandbys = async (names: string) => {
    await bySuperuser(`ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await bySuperuser("SELECT pg_reload_conf()");
  };
  /** What takes the server, and what brings it back. */
  const gone: readonly (readonly [
    what: string,
    go: () => Promise<void>,
    back: () => Promise<void>,
  ])[] = [
    ["PostgreSQL is stopped (fast)", () => postgres.stop("fast"), () => postgres.start()],
    ["PostgreSQL is stopped (immediate)", () => postgres.stop("immediate"), () => postgres.start()],
    ["no standby confirms commits", () => setStandbys("gone"), () => setStandbys("")],
  ];
  for (const [at, [what, go, back]] of sample(gone, 1, ([what]) => what).entries())
    test(
      `while ${what} for ${goneMs / 1000} seconds`,
      async () => {
        // No replica knows this key, and nothing is reserved for its account.
        const unknown = await fleet.key(`unknown-${at}`, "1000");
        const load = startSteadyLoad(fleet, [{ account: "alice", key, clients: 4 }]);
        await until("there is a reserve", () => load.answers.length > 40);
        await go();
        await Bun.sleep(goneMs / 2);
        const late = ask(unknown);
        await Bun.sleep(goneMs / 2);
        await back();
        const before = load.answers.length;
        await until("requests are served again", () => load.answers.length > before + 40);
        await load.end();
        expect(statusesOf(load.answers, "alice")).toEqual([200]);
        expect(new Set(await late)).toEqual(new Set([200]));
        expect(new Set(load.health)).toEqual(new Set([200]));
        expect(timesOf(load.answers, "alice").lastMs).toBeLessThan(3 * goneMs);
      },
      timeoutMs,
    );

  test(
    "and charge each whole answer once",
    async () => {
      expect(await fleet.problems()).toEqual([]);
    },
    timeoutMs,
  );

  async function bySuperuser(statement: string): Promise<void> {
    const sql = new SQL(postgres.url(), { max: 1 });
    await sql.unsafe(statement);
    await sql.close();
  }
});
