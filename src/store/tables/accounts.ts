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
  /** The price plan of the config; null: none. */
  plan: string | null;
}

/** What `accounts set` changes. An absent value stays. Null: the value of the config; no notices; no plan. */
export interface AccountChanges {
  readonly overdraft?: bigint | undefined;
  readonly low?: bigint | null | undefined;
  readonly notifyUrl?: string | null | undefined;
  readonly plan?: string | null | undefined;
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
  low: accounts.low,
  notifyUrl: accounts.notifyUrl,
  plan: accounts.plan,
};

export type AccountTable = ReturnType<typeof accountTable>;

export function accountTable(connection: Connection) {
  const { db, dialect } = connection;
  const select = () => db.select(accountColumns).from(accounts);
  const byName = lazy(() =>
    connection.prepare(select().where(eq(accounts.name, sql.placeholder("name")))),
  );
  const find = (name: string): Promise<AccountRow | undefined> => byName().first({ name });
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
  /** Until the end of its transaction nobody else changes the row. Throws if there is none. */
  const lockById = async (id: number): Promise<AccountRow> => {
    await connection.rows(`SELECT id FROM accounts WHERE id = $id ${dialect.lockingRows}`, { id });
    return await findById(id);
  };
  return {
    async insert(account: {
      name: string;
      overdraft: bigint;
      createdAt: number;
    }): Promise<AccountRow> {
      const values = { ...account, id: dialect.newRowId };
      const row = await connection.first(
        db.insert(accounts).values(values).returning({ id: accounts.id }),
      );
      assert(row !== undefined, "an insert returns its row");
      const fresh = {
        balance: 0n,
        reserved: 0n,
        disabled: false,
        low: null,
        notifyUrl: null,
        plan: null,
      };
      return { ...account, id: row.id, ...fresh };
    },
    find,
    findOrThrow,
    /** For a change that decides by the money of the account. Throws NotFoundError if there is no such account. */
    async lockOrThrow(name: string): Promise<AccountRow> {
      return await lockById((await findOrThrow(name)).id);
    },
    lockById,
    list: (): Promise<AccountRow[]> => connection.all(select().orderBy(asc(accounts.name))),
    /** At least one value is there. */
    set: (id: number, changes: AccountChanges) =>
      connection.run(db.update(accounts).set(changes).where(eq(accounts.id, id))),
    setDisabled: (id: number, disabled: boolean) =>
      connection.run(db.update(accounts).set({ disabled }).where(eq(accounts.id, id))),
  };
}
