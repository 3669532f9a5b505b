import { systemClock, type Clock } from "../../../lib/clock.ts";
import { assert } from "../../../lib/assert.ts";
import {
  isRefusal,
  outcomeOfFailure,
  outcomeOfSingles,
  type BatchOutcome,
  type Refused,
} from "../../writer/outcome.ts";
import { Pace } from "../../writer/pace.ts";
import { WriteQueue } from "../../writer/writeQueue.ts";
import {
  COMMIT_WITHIN_MS,
  type BatchTransport,
  type OutgoingBatch,
  type Writer,
} from "../../writer/writer.ts";
import { toWire, type WireBatch, type WireOperation } from "../../writer/writerMessages.ts";
import {
  CONFLICT_TRIES,
  Fenced,
  isConflict,
  isLockTimeout,
  messageOf,
  refusedBy,
} from "./failures.ts";
import { applyBatch, type BatchNumber, type LockedRows } from "./apply.ts";
import { fold } from "./fold.ts";
import type { Lease } from "./lease.ts";
import { LockedAccounts, type Lock } from "./lockedAccounts.ts";
import {
  accountsOf,
  isEmpty,
  joined,
  LOCKED,
  lockedOutcome,
  partOf,
  partsByAccount,
  wholeOf,
  type Part,
  type PartOutcome,
} from "./parts.ts";
import {
  BEGIN,
  ConnectionLost,
  Session,
  SHORT_WAIT,
  statement,
  UnsentStatement,
  type Connect,
} from "./session.ts";
import { LOCK_TABLES } from "./statements.ts";

/** A transaction costs the server as much as many rows. */
export const SERVER_PACE = { many: 40, everyMs: 25 } as const;
/** How long the writer tries before it reports a failure, and how long the end of an answer waits. */
export const PATIENCE = { patienceMs: 10_000, commitWithinMs: 40_000 } as const;
/** A connection that was silent for this long is used once: what is between it and the server may close silent ones. */
const KEEP_ALIVE_MS = 10_000;
const KEEP_ALIVE = statement("SELECT 1");
const LOOK_AGAIN_MS_MIN = 50;
const LOOK_AGAIN_MS_MAX = 1000;

/** The old transaction has the row until it ends, and then its outcome is known. */
const LOOK = "SELECT last_batch FROM replicas WHERE id = $1::text::bigint FOR UPDATE";

/** What the writer did since the start. */
export interface WriterFigures {
  readonly transactions: number;
  readonly roundTrips: number;
  /** Commits whose reply was lost and whose outcome was looked up. */
  readonly lookUps: number;
  /** Transactions that were run again because another one was in the way. */
  readonly conflicts: number;
  /** Accounts that another transaction had locked at their last try. */
  readonly lockedAccounts: number;
}

/** The writer of a replica. */
export interface ReplicaWriter extends Writer {
  figures(): WriterFigures;
}

/**
 * Starts the writer of a replica. A batch is one transaction under the lease. A commit whose reply is lost is looked up as
 * soon as the server can be reached, however long that takes: until then nobody knows whether its requests are charged.
 */
export function startReplicaWriter({
  connect,
  lease,
  clock = systemClock,
  onFatal,
  onCommit = () => {},
  onLocked = () => {},
}: {
  readonly connect: Connect;
  readonly lease: Pick<Lease, "id" | "fenced">;
  readonly clock?: Clock;
  /** A bug: the process must stop. */
  readonly onFatal: (message: string) => void;
  readonly onCommit?: (tookMs: number) => void;
  /** Another transaction has had rows of an account for two seconds. Called once for each time. Must not throw. */
  readonly onLocked?: (accountId: number) => void;
}): ReplicaWriter {
  const transport = new PostgresTransport(connect, lease, clock, onLocked);
  const queue = new WriteQueue(transport, { onFatal, onCommit, clock });
  queue.start();
  return Object.assign(queue, { figures: () => transport.figures() });
}

class PostgresTransport implements BatchTransport {
  readonly patienceMs = PATIENCE.patienceMs;
  readonly commitWithinMs = PATIENCE.commitWithinMs;
  readonly #connect: Connect;
  readonly #lease: Pick<Lease, "id" | "fenced">;
  readonly #clock: Clock;
  readonly #pace = new Pace(SERVER_PACE);
  readonly #locked: LockedAccounts;
  #session: Session | undefined;
  #keepAlive: Timer | undefined;
  /** The number of the last batch that was tried. Each try has its own, so that a look tells one from another. */
  #number = 0;
  #lookUntilMs = Infinity;
  #transactions = 0;
  #roundTripsBefore = 0;
  #lookUps = 0;
  #conflicts = 0;

  constructor(
    connect: Connect,
    lease: Pick<Lease, "id" | "fenced">,
    clock: Clock,
    onLocked: (accountId: number) => void,
  ) {
    this.#locked = new LockedAccounts(clock, onLocked);
    this.#connect = connect;
    this.#lease = lease;
    this.#clock = clock;
  }

  start(onReady: () => void): void {
    onReady();
  }

  delayMs(waiting: number): number {
    return this.#pace.delayMs(this.#clock.monotonicMs(), waiting);
  }

  figures(): WriterFigures {
    return {
      transactions: this.#transactions,
      roundTrips: this.#roundTripsBefore + (this.#session?.roundTrips ?? 0),
      lookUps: this.#lookUps,
      conflicts: this.#conflicts,
      lockedAccounts: this.#locked.size,
    };
  }

  async run({ operations, reserves }: OutgoingBatch): Promise<BatchOutcome> {
    // Also for all tries: what was held under one lease is never charged under the next one.
    const lease = this.#lease.id;
    this.#pace.started(this.#clock.monotonicMs(), operations.length);
    if (lease === undefined) return outcomeOfFailure(WITHOUT_LEASE, operations.length);
    assert(!operations.some(({ kind }) => kind === "notice"), "the store writes notices");
    clearTimeout(this.#keepAlive);
    const whole = wholeOf({ operations: operations.map(toWire), reserves });
    // Read once: each operation belongs to one part.
    const locks = this.#locked.locksOf(accountsOf(whole));
    const isLocked = (id: number | undefined): boolean => id !== undefined && locks.has(id);
    const isFold = (operation: WireOperation | undefined): boolean => operation?.kind === "fold";
    const free = partOf(whole, (id, operation) => !isLocked(id) && !isFold(operation));
    const locked = partOf(whole, isLocked);
    const folds = foldsOf(whole);
    const outcomes: PartOutcome[] = [];
    if (!isEmpty(free)) outcomes.push(...(await this.#runFree(free, lease)));
    if (!isEmpty(locked)) outcomes.push(...(await this.#runLocked(locked, locks, lease)));
    for (const part of folds) {
      const outcome = toOutcome(await this.#tryBatch(part, lease, "wait"), part);
      outcomes.push({ part, outcome });
    }
    this.#keepAlive = setTimeout(() => this.#stayAlive(), KEEP_ALIVE_MS).unref();
    return joined(operations.length, outcomes);
  }

  stopping(): void {
    this.#lookUntilMs = this.#clock.monotonicMs() + COMMIT_WITHIN_MS;
  }

  async close(): Promise<void> {
    clearTimeout(this.#keepAlive);
    this.#session?.close();
  }

  /** Waits a little for accounts that another transaction has locked. Then it goes on without them. */
  async #runFree(part: Part, lease: number): Promise<readonly PartOutcome[]> {
    const outcome = await this.#tryBatch(part, lease, "wait");
    if (isLocked(outcome)) return await this.#runSkipping(part, lease);
    return [await this.#ended(part, lease, outcome, "wait")];
  }

  /** Each account is tried once: what a first try has committed must not be tried again. */
  async #runLocked(
    part: Part,
    locks: ReadonlyMap<number, Lock>,
    lease: number,
  ): Promise<readonly PartOutcome[]> {
    const inTurn = this.#locked.inTurn(accountsOf(part));
    // An account in its turn has locked rows, so it is never apart.
    const isApart = (id: number | undefined): boolean =>
      id !== undefined && locks.get(id) === "others";
    const apart = partsByAccount(partOf(part, isApart));
    const rest = partOf(part, (id) => id !== inTurn && !isApart(id));
    const waiting = partOf(part, (id) => id !== undefined && id === inTurn);
    const outcomes: PartOutcome[] = [];
    if (!isEmpty(rest)) outcomes.push(...(await this.#runSkipping(rest, lease)));
    for (const one of apart) outcomes.push(await this.#runApart(one, lease, "skip"));
    if (!isEmpty(waiting)) outcomes.push(await this.#runApart(waiting, lease, "wait"));
    return outcomes;
  }

  /** Settles the accounts that are free. The outcomes name the others as `locked`. */
  async #runSkipping(part: Part, lease: number): Promise<readonly PartOutcome[]> {
    const outcome = await this.#tryBatch(part, lease, "skip");
    if (!isLocked(outcome)) return [await this.#ended(part, lease, outcome, "skip")];
    // Something else is locked: a whole table, or a row of one account.
    if (await this.#isTableLocked(lease)) return [{ part, outcome: toOutcome(TABLE_LOCKED, part) }];
    const outcomes: PartOutcome[] = [];
    for (const one of partsByAccount(part)) outcomes.push(await this.#runApart(one, lease, "skip"));
    return outcomes;
  }

  /** Tries the operations of one account. */
  async #runApart(part: Part, lease: number, lockedRows: LockedRows): Promise<PartOutcome> {
    const outcome = await this.#tryBatch(part, lease, lockedRows);
    if (!isLocked(outcome)) return await this.#ended(part, lease, outcome, lockedRows);
    const lock = lockedRows === "skip" ? "others" : "rows";
    for (const id of accountsOf(part)) this.#locked.found(id, lock);
    return { part, outcome: toOutcome(outcome, part) };
  }

  /** Tries the operations of a refused part one by one, and remembers which accounts are locked. */
  async #ended(
    part: Part,
    lease: number,
    tried: BatchOutcome | Refused,
    lockedRows: LockedRows,
  ): Promise<PartOutcome> {
    const isRefused = !("effects" in tried) && isRefusal(tried);
    const outcome = isRefused
      ? await this.#runSingles(part, lease, tried, lockedRows)
      : toOutcome(tried, part);
    const charged = chargedAccounts(part, outcome);
    for (const id of accountsOf(part))
      if (outcome.accountFailures?.get(id)?.failure === "locked") this.#locked.found(id, "rows");
      else if (outcome.effects.length > 0) this.#locked.written(id, charged.has(id));
    return { part, outcome };
  }

  /** As on SQLite: each one alone, so that only the refused operation fails, and reserves are only raised. */
  async #runSingles(
    { operations, reserves }: Part,
    lease: number,
    refusal: Refused,
    lockedRows: LockedRows,
  ): Promise<BatchOutcome> {
    const locked = new Set<number>();
    const attempt = async (batch: WireBatch): Promise<BatchOutcome | Refused> => {
      const ids = accountsOf(batch);
      // What else there is of a locked account need not wait again.
      if (!locked.isDisjointFrom(ids)) return LOCKED;
      const outcome = await this.#tryBatch(batch, lease, lockedRows);
      if (isLocked(outcome) && ids.size === 1) for (const id of ids) locked.add(id);
      return outcome;
    };
    const singles: (BatchOutcome | Refused)[] = [];
    for (const operation of operations)
      singles.push(await attempt({ operations: [operation], reserves: [] }));
    let raised = await attempt({ operations: [], reserves, onlyRaise: true });
    if (isLocked(raised)) {
      const parts: PartOutcome[] = [];
      for (const part of partsByAccount({ operations: [], reserves, places: [] })) {
        const own = await attempt({ ...part, onlyRaise: true });
        parts.push({ part, outcome: toOutcome(own, part) });
      }
      raised = joined(0, parts);
    }
    const outcome = outcomeOfSingles(refusal, singles, raised);
    const accountFailures = new Map([
      ...(outcome.accountFailures ?? []),
      ...[...locked].map((id) => [id, LOCKED] as const),
    ]);
    return { ...outcome, accountFailures };
  }

  async #isTableLocked(lease: number): Promise<boolean> {
    try {
      const session = await this.#open();
      await session.transaction(async () => {
        const look = statement(LOOK, String(lease));
        await session.run(BEGIN, SHORT_WAIT, look, statement(LOCK_TABLES));
      });
      return false;
    } catch (error) {
      if (error instanceof UnsentStatement) throw error;
      return isLockTimeout(error);
    }
  }

  async #tryBatch(
    batch: WireBatch,
    lease: number,
    lockedRows: LockedRows,
  ): Promise<BatchOutcome | Refused> {
    let isRunAgain = false;
    for (let tries = 1; ; tries += 1) {
      this.#number += 1;
      const number = { lease, number: this.#number };
      try {
        return await this.#transact(batch, number, lockedRows);
      } catch (error) {
        if (error instanceof ConnectionLost) {
          // The connection was closed while it was idle, for example. The server rolls back what it has of the batch.
          if (error.mayBeCommitted || isRunAgain) return unreachable(error);
          isRunAgain = true;
          continue;
        }
        if (error instanceof UnsentStatement) throw error;
        if (error instanceof Fenced) this.#lease.fenced(lease);
        if (!isConflict(error) || tries === CONFLICT_TRIES) return refusedBy(error);
        this.#conflicts += 1;
      }
    }
  }

  async #transact(
    batch: WireBatch,
    number: BatchNumber,
    lockedRows: LockedRows,
  ): Promise<BatchOutcome> {
    const session = await this.#open();
    this.#transactions += 1;
    let computed: BatchOutcome | undefined;
    const [first] = batch.operations;
    try {
      if (first?.kind === "fold") return folded(await fold(session, first.before, number));
      return await applyBatch(session, batch, number, lockedRows, (outcome) => {
        computed = outcome;
      });
    } catch (error) {
      const isUnknown = error instanceof ConnectionLost && error.mayBeCommitted;
      if (isUnknown && computed && (await this.#wasCommitted(number))) return computed;
      throw error;
    }
  }

  /** Tries until the server has answered, or until nobody waits for it any more. */
  async #wasCommitted({ lease, number }: BatchNumber): Promise<boolean> {
    this.#lookUps += 1;
    for (
      let waitMs = LOOK_AGAIN_MS_MIN;
      this.#clock.monotonicMs() < this.#lookUntilMs;
      waitMs *= 2
    ) {
      try {
        const [rows] = await (await this.#open()).run(statement(LOOK, String(lease)));
        return rows?.[0]?.["last_batch"] === BigInt(number);
      } catch {
        await Bun.sleep(Math.min(waitMs, LOOK_AGAIN_MS_MAX));
      }
    }
    return false;
  }

  #stayAlive(): void {
    const session = this.#session;
    if (session === undefined || session.isClosed) return;
    session.run(KEEP_ALIVE).catch(() => session.close());
    this.#keepAlive = setTimeout(() => this.#stayAlive(), KEEP_ALIVE_MS).unref();
  }

  async #open(): Promise<Session> {
    if (this.#session === undefined || this.#session.isClosed) {
      this.#roundTripsBefore += this.#session?.roundTrips ?? 0;
      this.#session = undefined;
      this.#session = await Session.open(this.#connect);
    }
    return this.#session;
  }
}

/** The replica looks for a new lease. What it had held is void, and the rest is tried again. */
const WITHOUT_LEASE: Refused = {
  ok: false,
  failure: "unreachable",
  message: "the replica has no lease",
};

const TABLE_LOCKED: Refused = {
  ok: false,
  failure: "busy",
  message: "another transaction has locked a table",
};

function unreachable(error: unknown): Refused {
  return { ok: false, failure: "unreachable", message: messageOf(error) };
}

function folded(count: number): BatchOutcome {
  return { replies: [{ ok: true, result: { folded: count } }], effects: [] };
}

function foldsOf(whole: Part): readonly Part[] {
  return whole.operations.flatMap((operation, index) => {
    const place = whole.places[index];
    if (operation.kind !== "fold" || place === undefined) return [];
    return [{ operations: [operation], reserves: [], places: [place] }];
  });
}

function isLocked(outcome: BatchOutcome | Refused): boolean {
  return !("effects" in outcome) && outcome.failure === "locked";
}

/** The accounts of which the end of a request was committed. */
function chargedAccounts({ operations }: Part, { replies }: BatchOutcome): ReadonlySet<number> {
  const charged = operations.flatMap((operation, index) => {
    if (operation.kind !== "recordRequest" || !replies[index]?.ok) return [];
    const { status, accountId } = operation.record.row;
    return status === "running" ? [] : [accountId];
  });
  return new Set(charged);
}

function toOutcome(outcome: BatchOutcome | Refused, part: Part): BatchOutcome {
  if ("effects" in outcome) return outcome;
  if (outcome.failure === "locked") return lockedOutcome(part);
  return outcomeOfFailure(outcome, part.operations.length);
}
