import { systemClock, type Clock } from "../../../lib/clock.ts";
import { assert } from "../../../lib/assert.ts";
import {
  isRefusal,
  outcomeOfFailure,
  outcomeOfSingles,
  type BatchOutcome,
  type Refused,
} from "../../writer/outcome.ts";
import {
  COMMIT_WITHIN_MS,
  WriteQueue,
  type BatchTransport,
  type OutgoingBatch,
  type Writer,
} from "../../writer/writeQueue.ts";
import { toWire, type WireBatch, type WireOperation } from "../../writer/writerMessages.ts";
import { CONFLICT_TRIES, Fenced, isConflict, messageOf, refusedBy } from "./failures.ts";
import { fold } from "./fold.ts";
import type { Lease } from "./lease.ts";
import { ConnectionLost, Session, statement, UnsentStatement, type Connect } from "./session.ts";
import { settle, type BatchNumber, type Settled } from "./settle.ts";

/** A burst of this many transactions starts at once. After it one starts each PACE_MS, with all that waits. */
export const BURST = 4;
export const PACE_MS = 25;
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
}: {
  readonly connect: Connect;
  readonly lease: Pick<Lease, "id" | "fenced">;
  readonly clock?: Clock;
  /** A bug: the process must stop. */
  readonly onFatal: (message: string) => void;
  readonly onCommit?: (tookMs: number) => void;
}): ReplicaWriter {
  const transport = new PostgresTransport(connect, lease, clock);
  const queue = new WriteQueue(transport, { onFatal, onCommit, clock });
  queue.start();
  return Object.assign(queue, { figures: () => transport.figures() });
}

class PostgresTransport implements BatchTransport {
  readonly #connect: Connect;
  readonly #lease: Pick<Lease, "id" | "fenced">;
  readonly #clock: Clock;
  #session: Session | undefined;
  /** The number of the last batch that was tried. Each try has its own, so that a look tells one from another. */
  #number = 0;
  /** When the next transactions may start, as if one started each PACE_MS. */
  #pacedUntilMs = -Infinity;
  #lookUntilMs = Infinity;
  #transactions = 0;
  #roundTripsBefore = 0;
  #lookUps = 0;
  #conflicts = 0;

  constructor(connect: Connect, lease: Pick<Lease, "id" | "fenced">, clock: Clock) {
    this.#connect = connect;
    this.#lease = lease;
    this.#clock = clock;
  }

  start(onReady: () => void): void {
    onReady();
  }

  delayMs(): number {
    const nowMs = this.#clock.monotonicMs();
    return Math.max(0, this.#pacedUntilMs - (BURST - 1) * PACE_MS - nowMs);
  }

  figures(): WriterFigures {
    return {
      transactions: this.#transactions,
      roundTrips: this.#roundTripsBefore + (this.#session?.roundTrips ?? 0),
      lookUps: this.#lookUps,
      conflicts: this.#conflicts,
    };
  }

  async run({ operations, reserves }: OutgoingBatch): Promise<BatchOutcome> {
    // Also for all tries: what was held under one lease is never charged under the next one.
    const lease = this.#lease.id;
    const nowMs = this.#clock.monotonicMs();
    this.#pacedUntilMs = Math.max(this.#pacedUntilMs, nowMs) + PACE_MS;
    if (lease === undefined) return outcomeOfFailure(WITHOUT_LEASE, operations.length);
    assert(!operations.some(({ kind }) => kind === "notice"), "the store writes notices");
    const all = operations.map(toWire);
    const isFold = ({ kind }: WireOperation): boolean => kind === "fold";
    const settled = await this.#runBatch(
      { operations: all.filter((one) => !isFold(one)), reserves },
      lease,
    );
    const replies = [...settled.replies];
    const inOrder: BatchOutcome["replies"][number][] = [];
    for (const operation of all) {
      const reply = isFold(operation)
        ? replyOf(await this.#tryBatch({ operations: [operation], reserves: [] }, lease))
        : replies.shift();
      inOrder.push(reply ?? WITHOUT_LEASE);
    }
    return { ...settled, replies: inOrder };
  }

  closing(): void {
    this.#lookUntilMs = this.#clock.monotonicMs() + COMMIT_WITHIN_MS;
  }

  async close(): Promise<void> {
    this.#session?.close();
  }

  async #runBatch(batch: WireBatch, lease: number): Promise<BatchOutcome> {
    const { operations, reserves } = batch;
    if (operations.length === 0 && reserves.length === 0) return { replies: [], effects: [] };
    const outcome = await this.#tryBatch(batch, lease);
    if ("effects" in outcome) return outcome;
    if (!isRefusal(outcome)) return outcomeOfFailure(outcome, operations.length);
    // As on SQLite: each one alone, so that only the refused operation fails, and reserves are only raised.
    const singles: (BatchOutcome | Refused)[] = [];
    for (const operation of operations)
      singles.push(await this.#tryBatch({ operations: [operation], reserves: [] }, lease));
    const last = await this.#tryBatch({ operations: [], reserves, onlyRaise: true }, lease);
    return outcomeOfSingles(outcome, singles, last);
  }

  async #tryBatch(batch: WireBatch, lease: number): Promise<BatchOutcome | Refused> {
    for (let tries = 1; ; tries += 1) {
      this.#number += 1;
      const number = { lease, number: this.#number };
      try {
        const { results, effect } = await this.#transact(batch, number);
        return { replies: results.map((result) => ({ ok: true, result })), effects: [effect] };
      } catch (error) {
        if (error instanceof ConnectionLost) return unreachable(error);
        if (error instanceof UnsentStatement) throw error;
        if (error instanceof Fenced) this.#lease.fenced(lease);
        if (!isConflict(error) || tries === CONFLICT_TRIES) return refusedBy(error);
        this.#conflicts += 1;
      }
    }
  }

  async #transact(batch: WireBatch, number: BatchNumber): Promise<Settled> {
    const session = await this.#open();
    this.#transactions += 1;
    let settled: Settled | undefined;
    const [first] = batch.operations;
    try {
      if (first?.kind === "fold") return folded(await fold(session, first.before, number));
      return await settle(session, batch, number, (computed) => {
        settled = computed;
      });
    } catch (error) {
      const isUnknown = error instanceof ConnectionLost && session.hasSentCommit;
      if (isUnknown && settled && (await this.#wasCommitted(number))) return settled;
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

function unreachable(error: unknown): Refused {
  return { ok: false, failure: "unreachable", message: messageOf(error) };
}

function folded(count: number): Settled {
  return { results: [{ folded: count }], effect: { accounts: [], chains: [] } };
}

function replyOf(outcome: BatchOutcome | Refused): BatchOutcome["replies"][number] | undefined {
  return "effects" in outcome ? outcome.replies[0] : outcome;
}
