import { asc, eq, sql } from "drizzle-orm";
import { assert } from "../../lib/assert.ts";
import { lazy } from "../../lib/lazy.ts";
import type { Connection } from "../connection.ts";
import { accounts } from "../schema/schema.ts";
import { NotFoundError } from "../storeError.ts";

/** `reserved` is what the serving gateway may hold for open requests. Amounts are nano-roubles. */
export interface AccountRow {
  id: number;
  name: string;
  balance: bigint;
  overdraft: bigint;
  reserved: bigint;
  disabled: boolean;
  createdAt: number;
  /** Below this much money the account is low; null: the value of the config. */
  low: bigint | null;
  /** Where notices about the account go besides the operator's: an http, https or mailto URL. */
  notifyUrl: string | null;
}

/** What `accounts set` changes. An absent value stays. Null: the value of the config; no notices. */
export interface AccountChanges {
  readonly overdraft?: bigint | undefined;
  readonly low?: bigint | null | undefined;
  readonly notifyUrl?: string | null | undefined;
}

export interface AccountTable {
  insert(account: { name: string; overdraft: bigint; createdAt: number }): Promise<AccountRow>;
  find(name: string): Promise<AccountRow | undefined>;
  /** Throws NotFoundError if there is no such account. */
  findOrThrow(name: string): Promise<AccountRow>;
  /**
   * The same for a change that decides by the money of the account. Until the end of its transaction nobody else changes
   * the row.
   */
  lockOrThrow(name: string): Promise<AccountRow>;
  /** Locks the account in the same way. Throws if there is no such row. */
  lockById(id: number): Promise<AccountRow>;
  list(): Promise<AccountRow[]>;
  /** At least one value is there. */
  set(id: number, changes: AccountChanges): Promise<void>;
  setDisabled(id: number, disabled: boolean): Promise<void>;
}

/** What others read. Only the changes of commands write. */
export type AccountReads = Pick<AccountTable, "findOrThrow" | "find" | "list">;

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
  low: accounts.low,
  notifyUrl: accounts.notifyUrl,
};

export function accountTable(connection: Connection): AccountTable {
  const { db, dialect } = connection;
  const select = () => db.select(accountColumns).from(accounts);
  const byName = lazy(() =>
    connection.prepare(select().where(eq(accounts.name, sql.placeholder("name")))),
  );
  const find = (name: string) => byName().first({ name });
  const findById = async (id: number): Promise<AccountRow> => {
    const row = await connection.first(select().where(eq(accounts.id, id)));
    assert(row !== undefined, "no account with this row id");
    return row;
  };
  const findOrThrow = async (name: string): Promise<AccountRow> => {
    const account = await find(name);
    if (account !== undefined) return account;
    throw new NotFoundError(
      `there is no account ${JSON.stringify(name)}: tollgate accounts list shows them`,
    );
  };
  const lockById = async (id: number): Promise<AccountRow> => {
    await connection.rows(`SELECT id FROM accounts WHERE id = $id ${dialect.lockingRows}`, { id });
    return await findById(id);
  };
  return {
    async insert(account) {
      const values = { ...account, id: dialect.newRowId };
      const row = await connection.first(
        db.insert(accounts).values(values).returning({ id: accounts.id }),
      );
      assert(row !== undefined, "an insert returns its row");
      const fresh = { balance: 0n, reserved: 0n, disabled: false, low: null, notifyUrl: null };
      return { ...account, id: row.id, ...fresh };
    },
    find,
    findOrThrow,
    async lockOrThrow(name) {
      return await lockById((await findOrThrow(name)).id);
    },
    lockById,
    list: () => connection.all(select().orderBy(asc(accounts.name))),
    set: (id, changes) =>
      connection.run(db.update(accounts).set(changes).where(eq(accounts.id, id))),
    setDisabled: (id, disabled) =>
      connection.run(db.update(accounts).set({ disabled }).where(eq(accounts.id, id))),
  };
}
