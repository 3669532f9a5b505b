// How fast two replicas charge one account on one PostgreSQL server, and what they wait for:
//
//   bun bench/fleet/hotAccount.ts [--quick] [--rounds N] [--at-once N] [--against BINARY]
//
// It starts a PostgreSQL server whose commits are on the disk, and in each round two replicas of the compiled executable on
// an empty database of it. All requests are of one account: N at once, 96 unless given, half of them at each replica. A
// round takes ten seconds after the warm-up, three in the quick form. --against adds another build, in turns with this one.
//
// Waits for rows are seen by looks at the server, one each 20 ms. A block counts as taken when a transaction raises it. The
// server counts these with a trigger of this script, which is dropped before the audit. The gateway does not count how many
// requests waited for a block. Linux only.
import { SQL } from "bun";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { binaryPath } from "../../test/support/binary/binary.ts";
import { auditTollgate, startTollgate, stop, type Ground } from "../gateway/contestants.ts";
import { addCounts, type Counts } from "../gateway/counts.ts";
import { Figures, quantile } from "../gateway/figures.ts";
import { endAll } from "../gateway/processes.ts";
import { shown, table } from "../gateway/report.ts";
import { watchAll } from "../gateway/turn.ts";
import { Load, startProvider } from "../gateway/workers.ts";
import { countTransactions, createDatabase, startDurableServer } from "./durableServer.ts";

const AT_ONCE = 96;
const LOOK_EVERY_MS = 20;
const WARM_MS = 500;
const PER_SECOND_MIN = 2000;
const quick = { rounds: 1, windowMs: 3000, warmUpAnswers: 4000 };
/** A gateway is compiled by Bun after some 20,000 requests. */
const thorough = { rounds: 3, windowMs: 10_000, warmUpAnswers: 20_000 };

const PER_SECOND = "requests";
const ACCOUNT_WAITS = "a transaction waits for the account's row";
const OTHER_WAITS = "a transaction waits for another lock";
/** The figures and their units, as the table shows them. */
const rows: readonly string[][] = [
  [PER_SECOND, "a second"],
  ["answer, p50", "ms"],
  ["answer, p99", "ms"],
  ["CPU of the replicas", "us a request"],
  ["PostgreSQL, transactions", "for 1,000 requests"],
  ["PostgreSQL, blocks taken", "for 1,000 requests"],
  [ACCOUNT_WAITS, "% of looks"],
  [OTHER_WAITS, "% of looks"],
];

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    rounds: { type: "string" },
    "at-once": { type: "string", default: String(AT_ONCE) },
    against: { type: "string" },
  },
});
const effort = values.quick ? quick : thorough;
const folder = mkdtempSync(join(tmpdir(), "tollgate-hot-"));
const server = await startDurableServer();
const figures = new Figures();

async function run(): Promise<void> {
  const [provider, load] = await Promise.all([startProvider(), Load.start()]);
  const builds = [["tollgate", await binaryPath()]];
  if (values.against) builds.push(["other build", resolve(values.against)]);
  const rounds = Number(values.rounds ?? effort.rounds);
  for (let round = 1; round <= rounds; round += 1) {
    for (const [at, [name = "", binary = ""]] of builds.entries()) {
      const place = join(folder, `${at}-${round}`);
      mkdirSync(place);
      const url = await createDatabase(server, `hot_${at}_${round}`);
      const ground = { folder: place, provider, other: provider };
      const verdict = await measure({ name, binary, url, ground, load });
      console.log(`${name}, round ${round}: ${verdict}`);
    }
  }
  const names = builds.map(([name = ""]) => name);
  console.log("");
  console.log(
    table(
      ["two replicas, one account: medians", "", ...names],
      rows.map((row) => row.concat(names.map((name) => shown(figures.median(row[0] ?? "", name))))),
    ),
  );
  for (const name of names) console.log(`\n${name}: ${goals(name)}`);
}

/** Measures two replicas of a build once, and resolves with what the audit says. */
async function measure({
  name,
  binary,
  url,
  ground,
  load,
}: {
  readonly name: string;
  readonly binary: string;
  readonly url: string;
  readonly ground: Ground;
  readonly load: Load;
}): Promise<string> {
  const first = await startTollgate("first", binary, ground, { databaseUrl: url });
  const second = await startTollgate("second", binary, ground, { databaseUrl: url, beside: first });
  const meter = await AccountMeter.start(url);
  const counting = { ...first, readCounts: () => meter.read() };
  const atOnce = Math.round(Number(values["at-once"]) / 2);
  const { windowMs, warmUpAnswers } = effort;
  const shared = { model: "json", atOnce, warmMs: WARM_MS, windowMs };
  await watchAll(load, [first, second], { ...shared, windowMs: 100, countMin: warmUpAnswers });
  const seen = await watchAll(load, [counting, second], { ...shared, isTimed: true });
  await Promise.all([first, second].map(stop));
  await meter.stop();
  const { looks = 0, accountWaits = 0, otherWaits = 0, ...counts } = seen.counts;
  figures.add(PER_SECOND, name, (seen.answers * 1000) / seen.elapsedMs);
  figures.add("answer, p50", name, quantile(seen.answerMs, 0.5) ?? NaN);
  figures.add("answer, p99", name, quantile(seen.answerMs, 0.99) ?? NaN);
  figures.add("CPU of the replicas", name, seen.cpuUs / seen.answers);
  addCounts(figures, "PostgreSQL", name, counts, seen.answers);
  figures.add(ACCOUNT_WAITS, name, (accountWaits * 100) / looks);
  figures.add(OTHER_WAITS, name, (otherWaits * 100) / looks);
  return auditTollgate("first", binary, ground);
}

function goals(name: string): string {
  const verdict = (isMet: boolean): string => (isMet ? "met" : "MISSED");
  const isFast = (figures.median(PER_SECOND, name) ?? 0) >= PER_SECOND_MIN;
  const isFree = figures.rounds(ACCOUNT_WAITS, name).every((share) => share === 0);
  return `at least ${PER_SECOND_MIN} requests a second: ${verdict(isFast)}; no request waits for the account's row: ${verdict(isFree)}`;
}

/** Counts what the server does for one database, and looks at who waits there. */
class AccountMeter {
  readonly #sql: SQL;
  readonly #looking: Promise<void>;
  #isStopped = false;
  #looks = 0;
  #accountWaits = 0;
  #otherWaits = 0;

  private constructor(sql: SQL) {
    this.#sql = sql;
    this.#looking = this.#look();
  }

  /** The database has its tables. */
  static async start(url: string): Promise<AccountMeter> {
    const sql = new SQL(url, { max: 2 });
    await sql.unsafe(COUNT_BLOCKS);
    return new AccountMeter(sql);
  }

  async read(): Promise<Counts> {
    const [blocks] = await this.#sql`SELECT last_value FROM bench_blocks`;
    return {
      transactions: await countTransactions(this.#sql),
      "blocks taken": Number(blocks.last_value),
      looks: this.#looks,
      accountWaits: this.#accountWaits,
      otherWaits: this.#otherWaits,
    };
  }

  /** Leaves nothing of its own in the database. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#looking;
    await this.#sql.unsafe("DROP FUNCTION bench_block CASCADE; DROP SEQUENCE bench_blocks");
    await this.#sql.close();
  }

  async #look(): Promise<void> {
    while (!this.#isStopped) {
      // Who waits for a row has the lock "tuple" of its table, and waits for the transaction that has changed the row.
      const [seen] = await this.#sql`SELECT
          count(DISTINCT pid) FILTER (WHERE locktype = 'tuple' AND relation = 'accounts'::regclass)::int AS account,
          count(DISTINCT pid) FILTER (WHERE NOT granted)::int AS all
        FROM pg_locks`;
      this.#looks += 1;
      if (seen.account > 0) this.#accountWaits += 1;
      if (seen.all > seen.account) this.#otherWaits += 1;
      await Bun.sleep(LOOK_EVERY_MS);
    }
  }
}

/** A block is the row of a replica and an account with the key 0. Its first amount counts as taken, too. */
const COUNT_BLOCKS = `
  CREATE SEQUENCE bench_blocks;
  SELECT nextval('bench_blocks');
  CREATE FUNCTION bench_block() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM nextval('bench_blocks'); RETURN NULL; END $$;
  CREATE TRIGGER bench_taken AFTER INSERT ON reserves FOR EACH ROW
    WHEN (NEW.key_id = 0) EXECUTE FUNCTION bench_block();
  CREATE TRIGGER bench_raised AFTER UPDATE ON reserves FOR EACH ROW
    WHEN (NEW.key_id = 0 AND NEW.amount > OLD.amount) EXECUTE FUNCTION bench_block();`;

async function leave(status: number): Promise<never> {
  await endAll();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
  process.exit(status);
}

process.on("SIGINT", () => void leave(130));
process.on("SIGTERM", () => void leave(143));
try {
  await run();
} catch (error) {
  console.error(error);
  await leave(1);
}
await leave(0);
