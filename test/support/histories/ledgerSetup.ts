import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Holds } from "../../../src/billing/holds.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { systemRandom } from "../../../src/lib/random.ts";
import {
  openStore,
  SharedWriter,
  startQueue,
  startWriter,
  type SqliteStore,
  type WriterLink,
  type WrittenFile,
} from "../../../src/store/open.ts";
import type { Writer } from "../../../src/store/store.ts";
import { auditFile } from "../auditor/auditor.ts";
import { fund } from "../store/storeFolder.ts";

/** A key of the bench, with the numbers under which the store knows it. */
export interface SetupKey {
  readonly name: string;
  readonly account: string;
  readonly budget: bigint | null;
  readonly accountId: number;
  readonly keyId: number;
}

/** What holds money in one serving process. */
export interface LedgerReplica {
  readonly writer: Writer;
  readonly holds: Holds;
}

/** Where a serving gateway keeps money: a store, its writer, and the holds in memory of each serving process. */
export interface LedgerSetup {
  readonly store: SqliteStore;
  readonly replicas: readonly LedgerReplica[];
  /** Makes an account and its key, whose name is `key_` and the key's. */
  key(name: string, account: string, budget: bigint | null): Promise<SetupKey>;
  /** Another life on the same store: what was open is interrupted. */
  restart(): Promise<void>;
  /** One of several replicas ends at once, as a killed process does. Another one is in its place. */
  kill(replica: number): void;
  /** Closes it. Throws if an audit finds a problem, or if something stays reserved. */
  close(): Promise<void>;
}

/** With several replicas they share one writer, as serving processes do. */
export async function openLedgerSetup(replicas = 1): Promise<LedgerSetup> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-ledger-"));
  const file = { path: join(folder, "tollgate.db"), durability: "process" } as const;
  const open = () => (replicas === 1 ? new AloneLife(file) : new SharedLife(file, replicas));
  let life = open();
  return {
    get store() {
      return life.store;
    },
    get replicas() {
      return life.replicas;
    },
    async key(name, account, budget) {
      const { accountId, keyId } = await fund(life.store, account, 0n, { name, budget });
      return { name, account, budget, accountId, keyId };
    },
    async restart() {
      await life.close();
      life.store.closeNow();
      life = open();
    },
    kill: (replica) => life.kill(replica),
    async close() {
      for (const { holds } of life.replicas) holds.close();
      await life.close();
      const reserved = (await life.store.accounts.list()).filter(({ reserved }) => reserved !== 0n);
      const problems = [
        ...reserved.map(({ name }) => `account ${name}: something is still reserved`),
        ...(await life.store.auditHere()).problems,
        ...auditFile(file.path),
      ];
      life.store.closeNow();
      await rm(folder, { recursive: true, force: true });
      if (problems.length > 0) throw new Error(problems.join("\n"));
    },
  };
}

/** From one start of the gateway to its end. */
interface Life extends Pick<LedgerSetup, "store" | "replicas" | "kill"> {
  /** Closes all but the store. */
  close(): Promise<void>;
}

class AloneLife implements Life {
  readonly store: SqliteStore;
  readonly replicas: readonly LedgerReplica[];

  constructor(file: WrittenFile) {
    this.store = openServed(file);
    const writer = startWriter(file, broken);
    this.replicas = [{ writer, holds: holdsOf(writer, this.store, true) }];
  }

  kill(): never {
    throw new Error("a gateway with one process has no other");
  }

  async close(): Promise<void> {
    await Promise.all(this.replicas.map(({ writer }) => writer.close()));
  }
}

class SharedLife implements Life {
  readonly store: SqliteStore;
  readonly replicas: SharingProcess[];
  readonly #file: WrittenFile;
  readonly #shared: SharedWriter;

  constructor(file: WrittenFile, replicas: number) {
    this.store = openServed(file);
    this.#file = file;
    this.#shared = new SharedWriter(file, broken);
    this.replicas = Array.from({ length: replicas }, () => this.#begin());
  }

  kill(at: number): void {
    this.replicas[at]?.kill();
    this.replicas[at] = this.#begin();
  }

  async close(): Promise<void> {
    await Promise.all(this.replicas.map((replica) => replica.close()));
    this.#shared.close();
  }

  #begin(): SharingProcess {
    return new SharingProcess(this.#file, this.#shared);
  }
}

/** A serving process as the writer in the main process has it: each message between the two takes a turn of the loop. */
class SharingProcess implements LedgerReplica {
  readonly writer: Writer;
  readonly holds: Holds;
  readonly #shared: SharedWriter;
  readonly #store: SqliteStore;
  readonly #number: number;
  #isKilled = false;

  constructor(file: WrittenFile, shared: SharedWriter) {
    this.#shared = shared;
    this.#store = openStore({ ...file, serving: false });
    let answer: ((outcome: string) => void) | undefined;
    this.#number = shared.join({
      answered: (outcome) => this.#hear(() => answer?.(outcome)),
      wanted: (accounts) =>
        this.#hear(() => accounts.forEach((account) => this.holds.wanted(account))),
      blocked: () => broken("the database is blocked"),
    });
    const link: WriterLink = {
      start: (onReady) => onReady(),
      run: (sent) =>
        new Promise((resolve) => {
          answer = resolve;
          this.#hear(() => shared.run(this.#number, sent));
        }),
      close: () => Promise.resolve(),
    };
    this.writer = startQueue(link, broken);
    this.holds = holdsOf(this.writer, this.#store, false);
  }

  kill(): void {
    this.#isKilled = true;
    this.holds.reset();
    this.#store.closeNow();
    this.#shared.end(this.#number);
  }

  async close(): Promise<void> {
    await this.writer.close();
    this.#store.closeNow();
    this.#isKilled = true;
    this.#shared.end(this.#number);
  }

  #hear(message: () => void): void {
    setImmediate(() => {
      if (!this.#isKilled) message();
    });
  }
}

function openServed(file: WrittenFile): SqliteStore {
  const store = openStore({ ...file, serving: true });
  store.interruptRunning();
  return store;
}

function holdsOf(writer: Writer, store: SqliteStore, isAlone: boolean): Holds {
  return new Holds({
    writer,
    clock: systemClock,
    random: systemRandom,
    changes: () => store.changes.current(),
    isAlone,
    refuse: () => undefined,
  });
}

function broken(message: string): void {
  throw new Error(`the writer is broken: ${message}`);
}
