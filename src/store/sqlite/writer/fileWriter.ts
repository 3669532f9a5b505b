import { sharedNowMs } from "../../../lib/clock.ts";
import { errorCode } from "../../../lib/systemError.ts";
import { InsufficientFunds, type GroupEffect } from "../../writer/effects.ts";
import { FOLD_BATCH } from "../../writer/folding.ts";
import {
  isRefusal,
  outcomeOfFailure,
  outcomeOfSingles,
  type BatchOutcome,
  type Refused,
  type WriteFailure,
} from "../../writer/outcome.ts";
import { decodeBatch, type WireBatch } from "../../writer/writerMessages.ts";
import { interruptRunning, type Interrupted } from "../interruptRunning.ts";
import {
  BUSY_TIMEOUT_MS,
  connect,
  setBusyTimeout,
  sqliteFault,
  type Durability,
  type SqliteConnection,
} from "../sqlite.ts";
import { prepareApply } from "./apply.ts";
import { Blocks, type ReplicaBlocks } from "./blocks.ts";

export interface WrittenFile {
  readonly path: string;
  readonly durability: Durability;
}

/** A batch on its way to the writer of the file. */
export interface SentBatch {
  /** Encoded by `encodeBatch`. */
  readonly batch: string;
  /** When the last operation was requested before the writer knew of a lock, by `sharedNowMs`. */
  readonly requestedAtMs: number;
}

/** A batch of one replica: of the gateway itself, or of one of its serving processes. */
export interface ReplicaBatch extends SentBatch {
  readonly replica: number;
}

/** What became of a batch. */
export interface SentOutcome {
  /** A BatchOutcome as JSON, which costs less than a structured clone. */
  readonly text: string;
  /** The accounts of which the replica wants money that others have reserved. */
  readonly wanted: ReadonlySet<number>;
  /** The disk is full, or another process keeps the database locked. */
  readonly isBlocked: boolean;
}

/** A decoded batch that is tried. */
interface Tried {
  readonly batch: WireBatch;
  readonly replica: ReplicaBlocks;
  readonly wanted: Set<number>;
}

/**
 * The shortest wait for a lock. After a batch that found the database locked, the next one waits only for the rest of
 * its last operation's BUSY_TIMEOUT_MS.
 */
const LOCKED_TIMEOUT_MS = 100;
/** The number of written requests between two checkpoints. */
const CHECKPOINT_EVERY = 256;

/**
 * The one writing connection of a serving gateway, for one or several replicas. Each call blocks the thread. A call throws after
 * an error after which nothing more may be written, such as a failed sync.
 */
export class FileWriter {
  readonly #connection: SqliteConnection;
  readonly #blocks = new Blocks();
  readonly #apply: ReturnType<typeof prepareApply>;
  #isLocked = false;
  /** Written requests since the last checkpoint. */
  #written = 0;

  constructor({ path, durability }: WrittenFile) {
    this.#connection = connect(path, durability);
    // `checkpointIfDue` replaces SQLite's own, which makes every hundredth commit some milliseconds longer.
    this.#connection.sqlite.run("PRAGMA wal_autocheckpoint = 0");
    this.#apply = prepareApply(this.#connection);
  }

  /** Runs one batch of each replica with one commit. If a rule refuses an operation, each batch has a commit of its own. */
  run(sent: readonly ReplicaBatch[]): readonly SentOutcome[] {
    const tried = sent.map(({ batch, replica }) => ({
      batch: decodeBatch(batch),
      replica: this.#blocks.of(replica),
      wanted: new Set<number>(),
    }));
    const requestedAtMs = Math.max(...sent.map((one) => one.requestedAtMs));
    const together = this.#tryCommit(tried, requestedAtMs);
    return tried.map((one, at) => {
      const outcome =
        "failure" in together
          ? this.#afterFailure(together, one, { requestedAtMs, isAlone: tried.length === 1 })
          : outcomeOf(together[at]);
      const { failure } = outcome.reserveFailure ?? {};
      const isBlocked = failure === "full" || failure === "busy";
      return { text: JSON.stringify(outcome), wanted: one.wanted, isBlocked };
    });
  }

  /** Call it when the outcomes are on their way. */
  checkpointIfDue(): void {
    if (this.#written < CHECKPOINT_EVERY) return;
    this.#written = 0;
    try {
      // PASSIVE does not wait for readers.
      this.#connection.sqlite.run("PRAGMA wal_checkpoint(PASSIVE)");
    } catch (error) {
      // The WAL keeps all commits. The next checkpoint may succeed.
      const failure = failureOf(error);
      if (failure !== "full" && failure !== "busy") throw error;
    }
  }

  /**
   * The replica has ended without an orderly stop: what it had reserved is released, and its requests are interrupted. Returns
   * undefined, and changes nothing, while the database cannot be written.
   */
  end(replica: number): Interrupted | undefined {
    try {
      const interrupted = interruptRunning(this.#connection, this.#blocks.of(replica));
      this.#blocks.end(replica);
      return interrupted;
    } catch (error) {
      const failure = failureOf(error);
      if (failure === "full" || failure === "busy") return undefined;
      throw error;
    }
  }

  close(): void {
    // Without `true` Bun 1.4.5 closes it at the end of the Worker, while the main connection works.
    this.#connection.sqlite.close(true);
  }

  #afterFailure(
    failed: Refused,
    one: Tried,
    { requestedAtMs, isAlone }: { readonly requestedAtMs: number; readonly isAlone: boolean },
  ): BatchOutcome {
    const { operations, reserves } = one.batch;
    if (!isRefusal(failed)) return outcomeOfFailure(failed, operations.length);
    const commit = (batch: WireBatch): BatchOutcome | Refused => {
      const committed = this.#tryCommit([{ ...one, batch }], requestedAtMs);
      return "failure" in committed ? committed : outcomeOf(committed[0]);
    };
    const whole = isAlone ? failed : commit(one.batch);
    if ("effects" in whole) return whole;
    if (!isRefusal(whole)) return outcomeOfFailure(whole, operations.length);
    // Each one alone, so that only the refused operation fails. A refused request keeps its hold, so the reserves of its
    // batch may be too small: they are only raised.
    const singles = operations.map((operation) =>
      commit({ operations: [operation], reserves: [] }),
    );
    const last = commit({ operations: [], reserves, onlyRaise: true });
    return outcomeOfSingles(whole, singles, last);
  }

  /** Commits batches together. Each one finds what those before it have changed. */
  #tryCommit(tried: readonly Tried[], requestedAtMs: number): readonly Committed[] | Refused {
    const { sqlite } = this.#connection;
    const undo: (() => void)[] = [];
    try {
      if (this.#isLocked) setBusyTimeout(sqlite, remainingWaitMs(requestedAtMs));
      sqlite.run("BEGIN IMMEDIATE");
      const committed = tried.map(({ batch, replica }) => {
        const { results, effect, blocks, wanted } = this.#apply(batch, replica);
        undo.push(replica.take(blocks));
        return { results, effect, wanted };
      });
      sqlite.run("COMMIT");
      this.#setLocked(false);
      tried.forEach(({ batch: { operations }, replica, wanted }, at) => {
        replica.committed(operations);
        for (const account of committed[at]?.wanted ?? []) wanted.add(account);
        for (const { kind } of operations) this.#written += kind === "fold" ? FOLD_BATCH : 1;
      });
      return committed;
    } catch (error) {
      if (sqlite.inTransaction) sqlite.run("ROLLBACK");
      undo.toReversed().forEach((one) => one());
      const failure = failureOf(error);
      if (failure === undefined) throw error;
      this.#setLocked(failure === "busy");
      return {
        ok: false,
        failure,
        message: error instanceof Error ? error.message : String(error),
      };
    }
  }

  #setLocked(isLocked: boolean): void {
    if (this.#isLocked && !isLocked) setBusyTimeout(this.#connection.sqlite, BUSY_TIMEOUT_MS);
    this.#isLocked = isLocked;
  }
}

type Committed = Omit<ReturnType<ReturnType<typeof prepareApply>>, "blocks">;

function outcomeOf(committed: Committed | undefined): BatchOutcome {
  const effects: GroupEffect[] = committed ? [committed.effect] : [];
  const replies = committed?.results.map((result) => ({ ok: true, result }) as const) ?? [];
  return { replies, effects };
}

function remainingWaitMs(requestedAtMs: number): number {
  const restMs = Math.round(requestedAtMs + BUSY_TIMEOUT_MS - sharedNowMs());
  return Math.min(Math.max(restMs, LOCKED_TIMEOUT_MS), BUSY_TIMEOUT_MS);
}

/** Undefined if the process must stop without a reply: nothing may be retried after a failed fsync. */
function failureOf(error: unknown): WriteFailure | undefined {
  if (error instanceof InsufficientFunds) return "insufficient";
  // A commit grows the WAL index after it wrote the frames. A crash can bring the rolled-back frames back.
  if (errorCode(error) === "SQLITE_IOERR_SHMSIZE") return undefined;
  const fault = sqliteFault(error);
  if (fault === "full" || fault === "busy") return fault;
  return fault === undefined || fault === "constraint" ? "refused" : undefined;
}
