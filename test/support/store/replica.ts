import { SQL } from "bun";
import { afterEach, beforeEach, expect } from "bun:test";
import { Lease, type LeaseListener } from "../../../src/store/postgres/writer/lease.ts";
import type { EndedReplica } from "../../../src/store/postgres/writer/replicas.ts";
import {
  startReplicaWriter,
  type ReplicaWriter,
} from "../../../src/store/postgres/writer/writer.ts";
import type { GroupEffect, ReserveTarget, RequestRecord } from "../../../src/store/store.ts";
import { knownSchema, versionOf } from "../../../src/store/postgres/schema/migrations.ts";
import type { Clock } from "../../../src/lib/clock.ts";
import type { TestDatabase } from "../servers/postgres.ts";
import { replicaDatabase } from "./replicaDatabase.ts";
import type { Owner } from "./storeFolder.ts";

/** A lease and a writer, as a serving replica has them. */
export interface Replica extends AsyncDisposable {
  readonly lease: Lease;
  readonly writer: ReplicaWriter;
  /** What the lease has told: `lost`, `joined`, `error`, and the replicas that it has ended. */
  readonly told: string[];
  readonly ended: EndedReplica[];
  /** What the last batch with reserves has committed. */
  readonly effects: readonly GroupEffect[];
  /** Asks for reserves with the next batch, and waits for it. */
  reserve(...targets: readonly ReserveTarget[]): Promise<readonly GroupEffect[]>;
  record(record: RequestRecord): Promise<unknown>;
  /** Stops without a release, as a killed process does. */
  abandon(): Promise<void>;
}

function connectTo(url: string): () => SQL {
  return () => new SQL(url, { max: 1, bigint: true, connectionTimeout: 3 });
}

interface ReplicaOptions {
  readonly name?: string;
  /** The clock of the lease. */
  readonly clock?: Clock;
  readonly writerClock?: Clock;
  /** 0 unless given: it ends a silent replica with its first heartbeat. */
  readonly steadyMs?: number;
  readonly onLost?: () => void;
}

/** A writer starts 40 transactions in a second of its clock. With this one it does not make a test wait. */
export const fastClock: Clock = {
  monotonicMs: () => 100 * performance.now(),
  epochMs: () => Date.now(),
};

export async function openReplica(
  url: string,
  { name = "replica", clock, writerClock, steadyMs = 0, onLost }: ReplicaOptions = {},
): Promise<Replica> {
  const connect = connectTo(url);
  const told: string[] = [];
  const ended: EndedReplica[] = [];
  const listener: LeaseListener = {
    onLost() {
      told.push("lost");
      onLost?.();
    },
    onJoined: () => told.push("joined"),
    onOutdated: () => told.push("outdated"),
    onClockSkew: () => undefined,
    onEnded: (one) => ended.push(one),
    onError: () => told.push("error"),
  };
  const lease = await Lease.take({
    connect,
    name,
    version: "1",
    knownSchema: versionOf(knownSchema),
    listener,
    steadyMs,
    ...(clock && { clock }),
  });
  const writer = startReplicaWriter({
    connect,
    lease,
    ...(writerClock && { clock: writerClock }),
    onFatal: (message) => {
      throw new Error(message);
    },
  });
  let effects: readonly GroupEffect[] = [];
  let targets: ReserveTarget[] = [];
  writer.planner = {
    planBatch: () => targets.splice(0),
    batchEnded: (committed) => {
      effects = committed;
    },
  };
  let isClosed = false;
  const close = async (): Promise<void> => {
    if (isClosed) return;
    isClosed = true;
    await writer.close();
    await lease.release();
  };
  return {
    lease,
    writer,
    told,
    ended,
    get effects() {
      return effects;
    },
    async reserve(...wanted) {
      targets = [...wanted];
      await writer.write({ kind: "reserve" });
      return effects;
    },
    record: (record) => writer.write({ kind: "recordRequest", record }),
    async abandon() {
      isClosed = true;
      await writer.close();
      lease.abandon();
    },
    [Symbol.asyncDispose]: close,
  };
}

/** A database of replicas for each test, with its books, which agree after the test unless `mayDisagree`. */
export function openBooksBefore({ mayDisagree = false } = {}): {
  readonly database: { readonly url: string };
  readonly books: Books;
} {
  const books = new Books();
  let database: TestDatabase;
  beforeEach(async () => {
    database = await replicaDatabase();
    books.use(database.url);
  });
  afterEach(async () => {
    const problems = mayDisagree ? [] : await books.problems();
    await books[Symbol.asyncDispose]();
    await database.drop();
    expect(problems).toEqual([]);
  });
  return {
    database: {
      get url() {
        return database.url;
      },
    },
    books,
  };
}

/** What commands do, and what an audit looks at, in the database of a test. */
export class Books implements AsyncDisposable {
  #sql: SQL | undefined;
  #keys = 0;

  /** Without a URL it waits for `use`. */
  constructor(url?: string) {
    if (url !== undefined) this.use(url);
  }

  /** Goes on with another database. */
  use(url: string): void {
    this.#sql = new SQL(url, { max: 2, bigint: true });
    this.#keys = 0;
  }

  get sql(): SQL {
    if (this.#sql === undefined) throw new Error("the books have no database yet");
    return this.#sql;
  }

  /** An account with a key. */
  async open(
    name: string,
    balance: bigint,
    { overdraft = 0n, budget = null }: { overdraft?: bigint; budget?: bigint | null } = {},
  ): Promise<Owner> {
    const [account] = await this.sql`
      INSERT INTO accounts (name, overdraft, created_at) VALUES (${name}, ${overdraft}, 0) RETURNING id`;
    const accountId = Number(account.id);
    if (balance > 0n) await this.append(accountId, "credit", balance);
    const keyId = await this.addKey(accountId, budget);
    return { accountId, keyId, firstKeyId: keyId };
  }

  async addKey(accountId: number, budget: bigint | null = null): Promise<number> {
    this.#keys += 1;
    const id = `key_${this.#keys}`;
    const [key] = await this.sql`
      INSERT INTO keys (public_id, account_id, hash, prefix, created_at, budget)
      VALUES (${id}, ${accountId}, sha256(${id}::text::bytea), 'sk', 0, ${budget}) RETURNING id`;
    return Number(key.id);
  }

  /** A row of the ledger, as a command writes it: the account is locked first. */
  async append(
    accountId: number,
    kind: "credit" | "debit" | "refund",
    amount: bigint,
    refundOf: bigint | null = null,
  ): Promise<void> {
    await this.sql.begin(async (tx) => {
      const [account] =
        await tx`SELECT balance, ledger_seq FROM accounts WHERE id = ${accountId} FOR UPDATE`;
      await tx`INSERT INTO ledger (account_id, seq, kind, amount, balance_after, at, refund_of)
        VALUES (${accountId}, ${account.ledger_seq + 1n}, ${kind}, ${amount}, ${account.balance + amount}, 0, ${refundOf})`;
    });
  }

  async account(id: number): Promise<{ balance: bigint; reserved: bigint; ledger_seq: bigint }> {
    const [row] =
      await this.sql`SELECT balance, reserved, ledger_seq FROM accounts WHERE id = ${id}`;
    return row;
  }

  async statuses(): Promise<Record<string, string>> {
    const rows = await this.sql`SELECT public_id, status FROM requests ORDER BY public_id`;
    return Object.fromEntries(
      rows.map((row: { public_id: string; status: string }) => [row.public_id, row.status]),
    );
  }

  /** What does not agree; empty if all records do. Spending and totals are compared while no request is folded. */
  async problems(): Promise<readonly string[]> {
    const checks: Record<string, string> = {
      "a balance is not the sum of the history":
        "SELECT a.id FROM accounts a WHERE balance <> (SELECT coalesce(sum(amount), 0) FROM history WHERE account_id = a.id)",
      "a history has a gap":
        "SELECT a.id FROM accounts a WHERE (ledger_seq, ledger_seq) <> (SELECT count(*), coalesce(max(seq), 0) FROM history WHERE account_id = a.id)",
      "a balance does not follow from the row before":
        "SELECT h.account_id FROM history h LEFT JOIN history b ON b.account_id = h.account_id AND b.seq = h.seq - 1 WHERE h.balance_after <> coalesce(b.balance_after, 0) + h.amount",
      "a reserve is not the sum of its blocks":
        "SELECT a.id FROM accounts a WHERE reserved <> (SELECT coalesce(sum(amount), 0) FROM reserves WHERE account_id = a.id AND key_id = 0)",
      "a replica that has ended has a block":
        "SELECT account_id AS id FROM reserves JOIN replicas ON replicas.id = replica_id WHERE ended_at IS NOT NULL",
      "a replica that has ended has a running request":
        "SELECT requests.id FROM requests JOIN replicas ON replicas.id = replica_id WHERE ended_at IS NOT NULL",
      "a key has not spent its charges":
        "SELECT k.id FROM keys k, retention WHERE kept_since = 0 AND first_key_id IS NULL AND spent <> (SELECT coalesce(sum(charge), 0) FROM requests r JOIN keys own ON own.id = r.key_id WHERE coalesce(own.first_key_id, own.id) = k.id) - (SELECT coalesce(sum(l.amount), 0) FROM ledger l JOIN requests r ON r.account_id = l.account_id AND r.ledger_seq = l.refund_of JOIN keys own ON own.id = r.key_id WHERE coalesce(own.first_key_id, own.id) = k.id)",
      "totals are not the sums of their requests": `
        WITH counted AS (SELECT at / 86400000 AS day, account_id, key_id, model, coalesce(provider, '') AS provider, endpoint,
            count(*) AS requests, count(*) FILTER (WHERE status IN ('failed', 'interrupted')) AS failed,
            count(ledger_seq) AS charged, sum(charge) AS charge, sum(prompt_tokens) AS prompt_tokens,
            sum(completion_tokens) AS completion_tokens
          FROM requests WHERE status <> 'running' GROUP BY 1, 2, 3, 4, 5, 6)
        SELECT 1 FROM counted c FULL JOIN daily_totals t USING (day, account_id, key_id, model, provider, endpoint)
        WHERE (SELECT kept_since FROM retention) = 0 AND (c.requests, c.failed, c.charged, c.charge, c.prompt_tokens, c.completion_tokens)
          IS DISTINCT FROM (t.requests, t.failed, t.charged, t.charge, t.prompt_tokens, t.completion_tokens)`,
    };
    const found: string[] = [];
    for (const [problem, query] of Object.entries(checks)) {
      const rows = await this.sql.unsafe(query);
      if (rows.length > 0) found.push(problem);
    }
    return found;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.sql.close();
  }
}
