import { SQL } from "bun";
import type { ServingProcess } from "../binary/servingProcess.ts";
import type { seededRandom } from "../seededRandom.ts";
import type { PostgresServer } from "../servers/postgres.ts";
import type { RedisServer } from "../servers/redis.ts";
import type { Fleet, FleetReplica } from "./fleet.ts";

/** What a fault can break. */
export interface Stage {
  readonly fleet: Fleet;
  readonly postgres: PostgresServer;
  readonly redis: RedisServer;
  readonly random: ReturnType<typeof seededRandom>;
  /** The names of the accounts. */
  readonly accounts: readonly string[];
  /** How long a replica stands still or is cut off, at most. */
  readonly stopMs: number;
}

/** Whose requests may fail while a part is broken: those of all accounts, of one, or of none. */
type Harmed = "all" | "none" | { readonly account: string };

export interface Fault {
  readonly harmed: Harmed;
  /** Resolves when the part is whole again. */
  run(): Promise<void>;
}

const CUT_MS_MIN = 500;
const TRAP_MS_MAX = 2000;
/** The writer reports a server that is gone after about ten seconds. Its start takes some time too. */
const GONE_MS_HARMLESS = 6000;
const GONE_MS_MIN = 5000;
const GONE_MS_MAX = 20_000;
const LOCK_MS_MIN = 200;
const LOCK_MS_MAX = 15_000;
const START_EVERY_MS = 500;
const IDLE_SESSIONS =
  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state = 'idle' AND pid <> pg_backend_pid()";

type FaultMaker = (stage: Stage, replica: FleetReplica) => Fault;

/** What can break in a fleet, by name. Those that begin with `replica` concern one replica. */
export const faultsByName: Readonly<Record<string, FaultMaker>> = {
  "replica killed": (_, { process }) => ({
    harmed: "all",
    async run() {
      await process.kill();
      await startAgain(process);
    },
  }),
  "replica stopped": ({ stopMs }, { process }) => ({
    harmed: "all",
    async run() {
      process.signal("SIGSTOP");
      await Bun.sleep(stopMs);
      process.signal("SIGCONT");
    },
  }),
  "replica stopped inside a transaction": ({ random, stopMs }, { process, proxy }) => ({
    harmed: "all",
    async run() {
      await Promise.race([proxy.swallowCommit(), Bun.sleep(TRAP_MS_MAX)]);
      proxy.pass();
      process.signal("SIGSTOP");
      await Bun.sleep(CUT_MS_MIN + random.below(stopMs - CUT_MS_MIN));
      process.signal("SIGCONT");
    },
  }),
  "replica cut off": ({ random, stopMs }, { proxy }) => ({
    harmed: "all",
    async run() {
      proxy.hang();
      await Bun.sleep(CUT_MS_MIN + random.below(stopMs - CUT_MS_MIN));
      if (random.chance(0.5)) proxy.reset();
      proxy.pass();
    },
  }),
  "replica replaced, as in a rollout": (_, { process }) => ({
    harmed: "none",
    async run() {
      process.signal("SIGTERM");
      const status = await process.ended;
      if (status !== 0) throw new Error(`a replica that was told to stop ended with ${status}`);
      await startAgain(process);
    },
  }),
  "connections reset": (_, { proxy }) => ({ harmed: "none", run: async () => proxy.reset() }),
  "connections forgotten": (_, { proxy }) => ({ harmed: "none", run: async () => proxy.expire() }),
  "idle connections ended": ({ postgres }) => ({
    harmed: "none",
    run: () => byHand(postgres, (sql) => sql.unsafe(IDLE_SESSIONS)),
  }),
  "reply of a commit lost": (_, { proxy }) => ({
    harmed: "none",
    run: () => Promise.race([proxy.dropReplyAfterCommit(), Bun.sleep(TRAP_MS_MAX)]),
  }),
  "commit lost": (_, { proxy }) => ({
    harmed: "none",
    run: () => Promise.race([proxy.dropCommit(), Bun.sleep(TRAP_MS_MAX)]),
  }),
  "account locked": ({ random, accounts, stopMs, postgres }) => {
    const account = random.pick(accounts);
    const most = Math.min(LOCK_MS_MAX, stopMs) - LOCK_MS_MIN;
    const lockMs = LOCK_MS_MIN + random.below(most);
    const rows = random.pick([
      `SELECT 1 FROM accounts WHERE name = '${account}' FOR UPDATE`,
      `SELECT 1 FROM accounts WHERE name = '${account}' FOR NO KEY UPDATE`,
      `SELECT 1 FROM keys WHERE account_id = (SELECT id FROM accounts WHERE name = '${account}') FOR UPDATE`,
    ]);
    return {
      harmed: { account },
      run: () =>
        byHand(postgres, (sql) =>
          sql.begin(async (transaction) => {
            await transaction.unsafe(rows);
            await Bun.sleep(lockMs);
          }),
        ),
    };
  },
  "PostgreSQL restarted": ({ postgres }) => ({ harmed: "none", run: () => postgres.restart() }),
  "PostgreSQL killed": ({ postgres }) => ({
    harmed: "none",
    async run() {
      await postgres.kill();
      await postgres.start();
    },
  }),
  "PostgreSQL gone": ({ random, stopMs, postgres }) => {
    const most = Math.max(Math.min(GONE_MS_MAX, stopMs) - GONE_MS_MIN, 1);
    const goneMs = GONE_MS_MIN + random.below(most);
    const mode = random.pick(["fast", "immediate"] as const);
    return {
      harmed: goneMs < GONE_MS_HARMLESS ? "none" : "all",
      async run() {
        await postgres.stop(mode);
        await Bun.sleep(goneMs);
        await postgres.start();
      },
    };
  },
  "Redis killed": ({ redis }) => ({
    harmed: "none",
    async run() {
      await redis.kill();
      await redis.start();
    },
  }),
};

/** As a supervisor does: another fault may end the process before it serves. */
async function startAgain(process: ServingProcess): Promise<void> {
  for (;;)
    try {
      return await process.start();
    } catch {
      await Bun.sleep(START_EVERY_MS);
    }
}

/** Works beside the fleet, as an operator with psql. */
async function byHand(
  postgres: PostgresServer,
  work: (sql: SQL) => Promise<unknown>,
): Promise<void> {
  const sql = new SQL(postgres.url(), { max: 1, onclose: () => undefined });
  // Another fault may end this connection, and with it what it locks.
  await work(sql).catch(() => undefined);
  await sql.close({ timeout: 0 });
}
