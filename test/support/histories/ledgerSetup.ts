import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Holds } from "../../../src/billing/holds.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import { systemRandom } from "../../../src/lib/random.ts";
import { openStore, startWriter, type SqliteStore } from "../../../src/store/open.ts";
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

/** Where a serving gateway keeps money: a store, its writer, and the holds in memory. */
export interface LedgerSetup {
  readonly store: SqliteStore;
  readonly writer: Writer;
  readonly holds: Holds;
  /** Makes an account and its key, whose name is `key_` and the key's. */
  key(name: string, account: string, budget: bigint | null): Promise<SetupKey>;
  /** Another life on the same store: what was open is interrupted. */
  restart(): Promise<void>;
  /** Closes it. Throws if an audit finds a problem, or if something stays reserved. */
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
    const holds = new Holds({
      writer,
      clock: systemClock,
      random: systemRandom,
      changes: () => store.changes.current(),
      isAlone: true,
      refuse: () => undefined,
    });
    return { store, writer, holds };
  };
  let life = open();
  return {
    get store() {
      return life.store;
    },
    get writer() {
      return life.writer;
    },
    get holds() {
      return life.holds;
    },
    async key(name, account, budget) {
      const { accountId, keyId } = await fund(life.store, account, 0n, { name, budget });
      return { name, account, budget, accountId, keyId };
    },
    async restart() {
      await life.writer.close();
      life.store.closeNow();
      life = open();
    },
    async close() {
      life.holds.close();
      await life.writer.close();
      const reserved = (await life.store.accounts.list()).filter(({ reserved }) => reserved !== 0n);
      const problems = [
        ...reserved.map(({ name }) => `account ${name}: something is still reserved`),
        ...(await life.store.auditHere()).problems,
        ...auditFile(path),
      ];
      life.store.closeNow();
      await rm(folder, { recursive: true, force: true });
      if (problems.length > 0) throw new Error(problems.join("\n"));
    },
  };
}
