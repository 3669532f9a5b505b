import { Pace } from "../../writer/pace.ts";
import type { Interrupted } from "../interruptRunning.ts";
import { FileWriter, type ReplicaBatch, type SentBatch, type WrittenFile } from "./fileWriter.ts";

/** Many batches share a commit. */
const SHARED_PACE = { many: 40, everyMs: 4 } as const;

/** What a replica hears from the writer that it shares with others. */
export interface SharingReplica {
  /** The outcome of its batch, in JSON. */
  answered(outcome: string): void;
  /** Another replica needs money of these accounts. */
  wanted(accounts: ReadonlySet<number>): void;
  /** The database took no batch of another replica. */
  blocked(): void;
}

/** One writer of a SQLite file for several replicas. It blocks its thread for each commit. */
export class SharedWriter {
  /** It has failed: nothing more is written. */
  isBroken = false;
  readonly #writer: FileWriter;
  readonly #onFatal: (message: string) => void;
  readonly #pace = new Pace(SHARED_PACE);
  readonly #replicas = new Map<number, SharingReplica>();
  #batches: { readonly from: SharingReplica; readonly batch: ReplicaBatch }[] = [];
  /** The number of the last replica. */
  #joined = 0;
  /** The last batch of any replica was not written, because the disk is full or the database locked. */
  #isBlocked = false;

  /** `onFatal` is called once, after an error after which nothing more may be written. */
  constructor(file: WrittenFile, onFatal: (message: string) => void) {
    this.#writer = new FileWriter(file);
    this.#onFatal = onFatal;
  }

  /** Returns the number of the replica. No number is given twice. */
  join(replica: SharingReplica): number {
    this.#joined += 1;
    this.#replicas.set(this.#joined, replica);
    return this.#joined;
  }

  /**
   * Runs a batch of a replica, which has no other open. While many batches arrive, those of some milliseconds have one commit.
   * Meanwhile each replica collects its next one. A batch of a replica that has ended is not run.
   */
  run(replica: number, sent: SentBatch): void {
    const from = this.#replicas.get(replica);
    if (!from) return;
    this.#batches.push({ from, batch: { ...sent, replica } });
    if (this.#batches.length > 1) return;
    const delayMs = this.#pace.delayMs(performance.now(), 1);
    if (delayMs > 0) setTimeout(() => this.#runBatches(), delayMs);
    else setImmediate(() => this.#runBatches());
  }

  /**
   * The replica has ended. Its batches that have arrived are run, then what it had reserved is released, and its requests are
   * interrupted. Returns undefined, and releases nothing, while the database cannot be written, and when the writer is broken.
   */
  end(replica: number): Interrupted | undefined {
    this.#replicas.delete(replica);
    this.#runBatches();
    return this.#write((writer) => writer.end(replica));
  }

  /** Call it when all replicas have ended. */
  close(): void {
    if (!this.isBroken) this.#writer.close();
  }

  #runBatches(): void {
    const batches = this.#batches;
    if (batches.length === 0) return;
    this.#batches = [];
    this.#pace.started(performance.now(), batches.length);
    this.#write((writer) => {
      const outcomes = writer.run(batches.map(({ batch }) => batch));
      batches.forEach(({ from }, at) => {
        const outcome = outcomes[at];
        if (!outcome) return;
        const { text, wanted, isBlocked } = outcome;
        from.answered(text);
        if (wanted.size > 0) this.#tellOthers(from, (other) => other.wanted(wanted));
        if (isBlocked && !this.#isBlocked) this.#tellOthers(from, (other) => other.blocked());
        this.#isBlocked = isBlocked;
      });
      writer.checkpointIfDue();
    });
  }

  #tellOthers(from: SharingReplica, tell: (other: SharingReplica) => void): void {
    for (const replica of this.#replicas.values()) if (replica !== from) tell(replica);
  }

  #write<Result>(work: (writer: FileWriter) => Result): Result | undefined {
    if (this.isBroken) return undefined;
    try {
      return work(this.#writer);
    } catch (error) {
      this.isBroken = true;
      this.#onFatal(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  }
}
