import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FundsReader } from "../../../src/billing/holds.ts";
import {
  openStore,
  startWriter,
  WriteError,
  type Store,
  type Writer,
  type WriteOperation,
  type WriteResult,
} from "../../../src/store/store.ts";
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

/** Where a serving gateway keeps money: a store and its writer. */
export interface LedgerSetup {
  readonly store: Store;
  readonly writer: Writer;
  /** Makes an account and its key, whose name is `key_` and the key's. */
  key(name: string, account: string, budget: bigint | null): SetupKey;
  fundsReaderOf(key: SetupKey): FundsReader;
  /** What the writer answers in the words of the model. */
  write(operation: Parameters<Writer["write"]>[0]): Promise<string>;
  /** Another life on the same store: what was open is interrupted. */
  restart(): Promise<void>;
  /** Closes it. Throws if an audit finds a problem. */
  close(): Promise<void>;
}

export async function openLedgerSetup(): Promise<LedgerSetup> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-ledger-"));
  const path = join(folder, "tollgate.db");
  const open = () => {
    const store = openStore({ path, durability: "process", serving: true });
    store.interruptRunning();
    const writer = startWriter({ path, durability: "process" }, (message) => {
      throw new Error(`the writer is broken: ${message}`);
    });
    return { store, writer };
  };
  let life = open();
  return {
    get store() {
      return life.store;
    },
    get writer() {
      return life.writer;
    },
    key(name, account, budget) {
      const { accountId, keyId } = fund(life.store, account, 0n, { name, budget });
      return { name, account, budget, accountId, keyId };
    },
    fundsReaderOf({ keyId }) {
      const { keys } = life.store;
      return {
        funds: () => existing(keys.funds(keyId)),
        fundsWithSettled: (requestIds) => existing(keys.fundsWithSettled(keyId, requestIds)),
      };
    },
    write: (operation) =>
      life.writer.write(operation).then(
        (result) => answerOf(operation.kind, result),
        (error: unknown) => {
          if (error instanceof WriteError) return "refused";
          throw error;
        },
      ),
    async restart() {
      await life.writer.close();
      life.store.close();
      life = open();
    },
    async close() {
      await life.writer.close();
      const problems = [...life.store.audit().problems, ...auditFile(path)];
      life.store.close();
      await rm(folder, { recursive: true, force: true });
      if (problems.length > 0) throw new Error(problems.join("\n"));
    },
  };
}

function answerOf(kind: WriteOperation["kind"], { charge, writeOff }: WriteResult): string {
  return kind === "openRequest" ? "opened" : `charged ${charge} of ${charge + writeOff}`;
}

function existing<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("the store does not know what was just put there");
  return value;
}
