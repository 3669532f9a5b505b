import type { GroupEffect, ReserveTarget } from "./effects.ts";
import type { BatchOutcome, WriteFailure } from "./outcome.ts";
import type { WriteOperation, WriteResult } from "./writerMessages.ts";

/** A serving gateway writes only with this. */
export interface Writer {
  /** Resolves once the operation is committed; rejects with WriteError. Operations keep their order. */
  write(operation: WriteOperation): Promise<WriteResult>;
  /**
   * Writes an operation that an answer waits for. While the disk is full, another process holds a lock or the server cannot
   * be reached, the operation is tried again for up to `commitWithinMs`. `holds`: what the end of a request releases.
   */
  writeWithin(operation: WriteOperation, holds?: EndingRequest["holds"]): Promise<WriteResult>;
  /** How long the end of an answer waits for its commit, in milliseconds. */
  readonly commitWithinMs: number;
  /** Set once, before the first write of a request. */
  planner: BatchPlanner | undefined;
  /** The number of operations that are not committed yet. */
  readonly queued: number;
  /**
   * Why writes fail, if later ones may succeed. A lock or an unreachable server counts once writes have failed for as long
   * as the engine is patient. A lock on one account does not count.
   */
  readonly blockedBy: Blocked | undefined;
  /** The writer failed fatally: no connection of this process may write any more. */
  readonly isBroken: boolean;
  /** The gateway stops: what fails for a reason that may pass is tried again for COMMIT_WITHIN_MS and no longer. */
  stopping(): void;
  /** Tries a write that changes nothing and updates `blockedBy`. While writes fail, the writer probes each second. */
  probe(): void;
  /** Refuses new operations, waits for the earlier ones unless the writer is broken, and closes the connection. */
  close(): Promise<void>;
}

/** A request whose end is written, for the owner of the holds. */
export interface EndingRequest {
  /** In nano-roubles. */
  readonly charge: bigint;
  /** The holds that the commit releases; one or more. */
  readonly holds: readonly object[];
}

/** The owner of the holds. It is asked before each batch and told after it. */
export interface BatchPlanner {
  /** Returns the reserves to commit with the ends of these requests. */
  planBatch(ending: readonly EndingRequest[]): readonly ReserveTarget[];
  /**
   * The money of these holds was released: another replica has ended the lease that they are of. The writer asks before
   * each batch. It fails the end of such a request as `fenced` if it has a charge, which a later lease must not pay.
   */
  isVoid?(holds: EndingRequest["holds"]): boolean;
  /**
   * The batch has ended: what was committed, the requests whose end was, and why the reserves were not: all of them, or
   * those of some accounts. Called before the writes of the batch resolve.
   */
  batchEnded(
    effects: readonly GroupEffect[],
    ended: readonly EndingRequest[],
    failure: WriteError | undefined,
    accountFailures?: ReadonlyMap<number, WriteError>,
  ): void;
}

/** How long the end of an answer waits for a full disk or a locked database, in milliseconds. */
export const COMMIT_WITHIN_MS = 10_000;
export const COMMIT_STEP_MS = 200;

/** The operations of one transaction on their way to the engine. */
export interface OutgoingBatch {
  readonly operations: readonly WriteOperation[];
  readonly reserves: readonly ReserveTarget[];
  /** When the last operation was requested before the writer knew of a lock, by `sharedNowMs`. */
  readonly requestedAtMs: number;
}

/** The way of the batches to one engine. Only one batch runs at a time. */
export interface BatchTransport {
  /** How long writes fail because of a lock or an unreachable server before `blockedBy` says so. */
  readonly patienceMs: number;
  readonly commitWithinMs: number;
  /**
   * Opens the connection. `onReady`: batches can run. `onFatal`: the process must stop, and a running batch never gets its
   * outcome.
   */
  start(onReady: () => void, onFatal: (message: string) => void): void;
  /** How long the next batch waits for more operations. `waiting` is their number now, at least one. */
  delayMs(waiting: number, isAfterBatch: boolean): number;
  run(batch: OutgoingBatch): Promise<BatchOutcome>;
  /** The gateway stops. A running batch need not wait for long any more. */
  stopping?(): void;
  close(): Promise<void>;
}

const NAMES: Partial<Record<WriteFailure, string>> = {
  full: "StoreFull",
  busy: "StoreLocked",
  unreachable: "StoreUnreachable",
  locked: "AccountLocked",
  fenced: "ReplicaFenced",
};

const RETRY_AFTER_MS = 1000;

/** The writer could not perform an operation. Nothing of it is in the database. Logs show the name. */
export class WriteError extends Error {
  constructor(
    readonly failure: WriteFailure,
    message?: string,
  ) {
    super(message);
    this.name = NAMES[failure] ?? "WriteError";
  }

  /** When a client may try again; undefined if that does not help. */
  get retryAfterMs(): number | undefined {
    return isTemporary(this) ? RETRY_AFTER_MS : undefined;
  }
}

/** A temporary failure that concerns all operations. */
export type Blocked = Extract<WriteFailure, "full" | "busy" | "unreachable">;

export function isBlocked(failure: WriteFailure): failure is Blocked {
  return failure === "full" || failure === "busy" || failure === "unreachable";
}

/** True if the same operation may succeed later. */
export function isTemporary(error: unknown): boolean {
  return error instanceof WriteError && (isBlocked(error.failure) || error.failure === "locked");
}
