import { asc, eq, sql } from "drizzle-orm";
import { assert } from "../../lib/assert.ts";
import { accounts, newRowId } from "../schema/schema.ts";
import { NotFoundError, type Connection } from "../sqlite/sqlite.ts";

/** `reserved` is what the serving gateway may hold for open requests. Amounts are nano-roubles. */
export interface AccountRow {
  id: number;
  name: string;
  balance: bigint;
  overdraft: bigint;
  reserved: bigint;
  disabled: boolean;
  createdAt: number;
}

export interface AccountTable {
  insert(account: { name: string; overdraft: bigint; createdAt: number }): AccountRow;
  find(name: string): AccountRow | undefined;
  /** Throws NotFoundError if there is no such account. */
  findOrThrow(name: string): AccountRow;
  /** Throws if there is no such row. */
  findById(id: number): AccountRow;
  list(): AccountRow[];
  setOverdraft(id: number, overdraft: bigint): void;
  setDisabled(id: number, disabled: boolean): void;
  /** No gateway may be running. */
  releaseReserve(id: number): void;
}

/** What the account can still spend. */
export function available(account: Pick<AccountRow, "balance" | "overdraft" | "reserved">): bigint {
  return account.balance + account.overdraft - account.reserved;
}

/** The columns of an AccountRow. */
export const accountColumns = {
  id: accounts.id,
  name: accounts.name,
  balance: accounts.balance,
  overdraft: accounts.overdraft,
  reserved: accounts.reserved,
  disabled: accounts.disabled,
  createdAt: accounts.createdAt,
};

export function accountTable({ db }: Connection): AccountTable {
  const columns = accountColumns;
  const select = db.select(columns).from(accounts);
  const all = db.select(columns).from(accounts).orderBy(asc(accounts.name)).prepare();
  const byName = select.where(eq(accounts.name, sql.placeholder("name"))).prepare();
  const find = (name: string): AccountRow | undefined => byName.get({ name });
  return {
    insert(account) {
      const row = db
        .insert(accounts)
        .values({ ...account, id: newRowId })
        .returning({ id: accounts.id })
        .get();
      return { ...account, id: row.id, balance: 0n, reserved: 0n, disabled: false };
    },
    find,
    findOrThrow(name) {
      const account = find(name);
      if (account !== undefined) return account;
      throw new NotFoundError(
        `there is no account ${JSON.stringify(name)}: tollgate accounts list shows them`,
      );
    },
    findById(id) {
      const row = db.select(columns).from(accounts).where(eq(accounts.id, id)).get();
      assert(row !== undefined, "no account with this row id");
      return row;
    },
    list: () => all.all(),
    setOverdraft(id, overdraft) {
      db.update(accounts).set({ overdraft }).where(eq(accounts.id, id)).run();
    },
    setDisabled(id, disabled) {
      db.update(accounts).set({ disabled }).where(eq(accounts.id, id)).run();
    },
    releaseReserve(id) {
      db.update(accounts).set({ reserved: 0n }).where(eq(accounts.id, id)).run();
    },
  };
}
