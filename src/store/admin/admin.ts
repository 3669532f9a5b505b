import { formatRoubles } from "../../lib/money.ts";
import type { Connection } from "../connection.ts";
import { type Actor, adminLog } from "../schema/schema.ts";
import { StoreError } from "../storeError.ts";
import {
  accountTable,
  available,
  type AccountChanges,
  type AccountRow,
  type AccountTable,
} from "../tables/accounts.ts";
import {
  changeKey,
  changesDetail,
  rotateKey,
  rotationDetail,
  settingsDetail,
  type Rotation,
} from "./keyChanges.ts";
import { keyTable, type KeyChanges, type KeyTable, type NewKey } from "../tables/keys.ts";
import { ledgerTable, refTakenError, SPENDABLE_MAX, type LedgerTable } from "../tables/ledger.ts";
import { refund, type RefundRequest } from "./refund.ts";
import { voucherTable, type VoucherRow, type VoucherTable } from "../tables/vouchers.ts";
import { revokeVoucher, voucherDetail, type NewVouchers } from "./vouchers.ts";

/** `amount` is positive nano-roubles for both kinds. */
export interface LedgerChange {
  account: string;
  kind: "credit" | "debit";
  amount: bigint;
  ref: string | null;
  note: string | null;
}

/**
 * The account has the money, but the serving gateway has reserved the money for open requests. After about a second the
 * gateway releases what it does not need.
 */
export class MoneyReservedError extends StoreError {}

/** `applied` is false if the same change was made before with this ref. */
export interface LedgerChangeResult {
  account: AccountRow;
  applied: boolean;
}

/** How the reserve of an account is released, by its row id. */
export type ReleaseReserve = (accountId: number) => Promise<boolean>;

/** The changes of commands. Each is one transaction with a row in the admin log. */
export function admin(connection: Connection, releaseReserve: ReleaseReserve) {
  return {
    createAccount: (actor: Actor, name: string, overdraft: bigint) =>
      change(connection, actor, name, async ({ accounts }) => {
        if (await accounts.find(name))
          throw new StoreError(
            `account ${JSON.stringify(name)} exists already: tollgate accounts show ${name} shows it`,
          );
        const result = await accounts.insert({ name, overdraft, createdAt: actor.at });
        return { result, detail: accountDetail({ overdraft }) };
      }),
    setAccount: (actor: Actor, name: string, changes: AccountChanges) =>
      change(connection, actor, name, async ({ accounts }) => {
        const account = await accounts.lockOrThrow(name);
        if (changes.overdraft !== undefined) refuseOverdraft(account, changes.overdraft);
        await accounts.set(account.id, changes);
        return { result: await accounts.findOrThrow(name), detail: accountDetail(changes) };
      }),
    setDisabled: (actor: Actor, name: string, disabled: boolean) =>
      change(connection, actor, name, async ({ accounts }) => {
        const { id } = await accounts.findOrThrow(name);
        await accounts.setDisabled(id, disabled);
        return { result: await accounts.findOrThrow(name), detail: null };
      }),
    createKey: (actor: Actor, account: string, key: Omit<NewKey, "accountId">) =>
      change(connection, actor, key.publicId, async ({ accounts, keys }) => {
        const existing = await accounts.find(account);
        const owner =
          existing ??
          (await accounts.insert({ name: account, overdraft: 0n, createdAt: actor.at }));
        await keys.insert({ ...key, accountId: owner.id });
        const result = {
          key: await keys.findOrThrow(key.publicId),
          createdAccount: existing === undefined,
        };
        return { result, detail: `account ${account}` };
      }),
    changeKey: (actor: Actor, publicId: string, changes: KeyChanges) =>
      change(connection, actor, publicId, async ({ keys }) => {
        const result = await changeKey(keys, publicId, changes);
        return { result, detail: changesDetail(changes) };
      }),
    rotateKey: (actor: Actor, publicId: string, rotation: Rotation) =>
      change(connection, actor, publicId, async ({ keys }) => {
        const result = await rotateKey(keys, actor, publicId, rotation);
        return { result, detail: rotationDetail(result) };
      }),
    revokeKey: (actor: Actor, publicId: string) =>
      change(connection, actor, publicId, async ({ keys }) => {
        const applied = await keys.revoke((await keys.findOrThrow(publicId)).id, actor.at);
        const result = { key: await keys.findOrThrow(publicId), applied };
        return { result, detail: null, applied };
      }),
    changeBalance: (actor: Actor, ledgerChange: LedgerChange) =>
      change(connection, actor, ledgerChange.account, async (tables) => {
        const result = await changeBalance(tables, actor, ledgerChange);
        return { result, detail: ledgerDetail(ledgerChange), applied: result.applied };
      }),
    refund: (actor: Actor, refundRequest: RefundRequest) =>
      change(connection, actor, refundRequest.request, async ({ transaction }) => {
        const result = await refund(transaction, actor, refundRequest);
        const detail = ledgerDetail({ amount: result.amount, ref: refundRequest.ref });
        return { result, detail, applied: result.applied };
      }),
    createVouchers: (actor: Actor, { codes, ...settings }: NewVouchers) =>
      connection.inTransaction(async (transaction) => {
        const detail = voucherDetail({ codes, ...settings });
        const created: VoucherRow[] = [];
        for (const code of codes) {
          created.push(
            await change(transaction, actor, code.publicId, async ({ vouchers }) => {
              await vouchers.insert({ ...code, ...settings, createdAt: actor.at });
              return { result: await vouchers.findOrThrow(code.publicId), detail };
            }),
          );
        }
        return created;
      }),
    revokeVoucher: (actor: Actor, publicId: string) =>
      change(connection, actor, publicId, async ({ vouchers }) => {
        const result = await revokeVoucher(vouchers, actor, publicId);
        return { result, detail: null, applied: result.applied };
      }),
    async releaseReserve(account: string): Promise<boolean> {
      return await releaseReserve((await accountTable(connection).findOrThrow(account)).id);
    },
  };
}

function refuseOverdraft(account: AccountRow, overdraft: bigint): void {
  const name = JSON.stringify(account.name);
  if (available({ ...account, overdraft }) < 0n) {
    const refusal = `the overdraft of ${name} cannot be ${formatRoubles(overdraft)}: more than that is spent or held`;
    if (account.balance + overdraft < 0n) throw new StoreError(refusal);
    throw new MoneyReservedError(`${refusal}; ${reservedText(account)}`);
  }
  const most = SPENDABLE_MAX - account.balance;
  if (overdraft > account.overdraft && overdraft > most) {
    throw new StoreError(
      `the balance of ${name} with that overdraft would be larger than 64 bits can hold: choose an overdraft of at most ${formatRoubles(most)} roubles`,
    );
  }
}

function reservedText(account: AccountRow): string {
  return `the gateway has reserved ${formatRoubles(account.reserved)} for open requests: try again when they have ended, or disable the account first`;
}

/** For the admin log. */
function accountDetail({ overdraft, low, notifyUrl, plan }: AccountChanges): string {
  return settingsDetail({
    overdraft: overdraft === undefined ? undefined : formatRoubles(overdraft),
    low: low && formatRoubles(low),
    notify: notifyUrl && placeOf(notifyUrl),
    plan,
  });
}

/** The host of a webhook, because its path may be a secret; or the mail address. */
function placeOf(notifyUrl: string): string {
  return notifyUrl.startsWith("mailto:")
    ? notifyUrl.slice("mailto:".length)
    : new URL(notifyUrl).host;
}

/** For the admin log. The note is in the ledger. */
function ledgerDetail({ amount, ref }: Pick<LedgerChange, "amount" | "ref">): string {
  return ref === null ? formatRoubles(amount) : `${formatRoubles(amount)} ref ${ref}`;
}

async function changeBalance(
  { accounts, ledger }: Tables,
  actor: Actor,
  ledgerChange: LedgerChange,
): Promise<LedgerChangeResult> {
  const account = await accounts.lockOrThrow(ledgerChange.account);
  const amount = ledgerChange.kind === "debit" ? -ledgerChange.amount : ledgerChange.amount;
  if (ledgerChange.ref !== null) {
    const before = await ledger.findByRef(ledgerChange.ref);
    if (before) {
      const isSame =
        before.accountId === account.id &&
        before.kind === ledgerChange.kind &&
        before.amount === amount;
      if (!isSame) throw refTakenError(before);
      return { account, applied: false };
    }
  }
  if (ledgerChange.kind === "debit" && ledgerChange.amount > available(account)) {
    const refusal = `account ${JSON.stringify(account.name)} has ${formatRoubles(available(account))} roubles available, less than ${formatRoubles(ledgerChange.amount)}`;
    if (ledgerChange.amount > account.balance + account.overdraft) throw new StoreError(refusal);
    throw new MoneyReservedError(`${refusal}; ${reservedText(account)}`);
  }
  const { kind, ref, note } = ledgerChange;
  const balance = await ledger.append({
    accountId: account.id,
    kind,
    amount,
    ref,
    note,
    actor: actor.name,
    at: actor.at,
    refundOf: null,
  });
  return { account: { ...account, balance }, applied: true };
}

/** The tables of the transaction of a change. */
interface Tables {
  readonly transaction: Connection;
  readonly accounts: AccountTable;
  readonly keys: KeyTable;
  readonly ledger: LedgerTable;
  readonly vouchers: VoucherTable;
}

/** The result of a change, and its detail for the admin log. */
interface Changed<T> {
  result: T;
  detail: string | null;
  applied?: boolean;
}

/** Runs a change as one transaction, with its row in the admin log. `subject`: what is changed. */
async function change<T>(
  connection: Connection,
  { at, name, command }: Actor,
  subject: string,
  work: (tables: Tables) => Promise<Changed<T>>,
): Promise<T> {
  return await connection.inTransaction(async (transaction) => {
    const {
      result,
      detail,
      applied = true,
    } = await work({
      transaction,
      accounts: accountTable(transaction),
      keys: keyTable(transaction),
      ledger: ledgerTable(transaction),
      vouchers: voucherTable(transaction),
    });
    const { db, dialect } = transaction;
    const row = { id: dialect.newRowId, at, actor: name, command, subject, detail };
    if (applied) await transaction.run(db.insert(adminLog).values(row));
    return result;
  });
}
