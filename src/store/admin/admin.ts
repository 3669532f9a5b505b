import { formatRoubles } from "../../lib/money.ts";
import { accountTable, available, type AccountRow } from "../tables/accounts.ts";
import { type Actor, adminLog, newRowId } from "../schema/schema.ts";
import {
  changeKey,
  changesDetail,
  rotateKey,
  rotationDetail,
  type Rotated,
  type Successor,
} from "./keyChanges.ts";
import { keyTable, type KeyChanges, type KeyRow, type NewKey } from "../tables/keys.ts";
import { ledgerTable, refTakenError, SPENDABLE_MAX } from "../tables/ledger.ts";
import { refund, type Refunded, type RefundRequest } from "./refund.ts";
import { StoreError, type Connection } from "../sqlite/sqlite.ts";
import { voucherTable, type VoucherRow } from "../tables/vouchers.ts";
import { revokeVoucher, voucherDetail, type NewVouchers, type Revoked } from "./vouchers.ts";

/** `amount` is positive nano-roubles for both kinds. */
export interface LedgerChange {
  account: string;
  kind: "credit" | "debit";
  amount: bigint;
  ref: string | null;
  note: string | null;
}

/**
 * The account has the money, but the serving gateway has reserved it for open requests. It releases what it does not
 * need after about a second.
 */
export class MoneyReservedError extends StoreError {}

/** `applied` is false if the same change was made before with this ref. */
export interface LedgerChangeResult {
  account: AccountRow;
  applied: boolean;
}

/**
 * The changes of commands. Each is one transaction with a row in the admin log, unless `applied` is false. They throw
 * StoreError, and MoneyReservedError for a debit or an overdraft that is possible once the gateway releases its reserve.
 */
export interface Admin {
  createAccount(actor: Actor, name: string, overdraft: bigint): AccountRow;
  setOverdraft(actor: Actor, name: string, overdraft: bigint): AccountRow;
  setDisabled(actor: Actor, name: string, disabled: boolean): AccountRow;
  /** Creates the account if it does not exist. */
  createKey(
    actor: Actor,
    account: string,
    key: Omit<NewKey, "accountId">,
  ): { key: KeyRow; createdAccount: boolean };
  /** A budget applies to the whole rotation chain. */
  changeKey(actor: Actor, publicId: string, changes: KeyChanges): KeyRow;
  /** Replaces a key by a new one. The old key works for another `graceMs`. */
  rotateKey(
    actor: Actor,
    publicId: string,
    rotation: { successor: Successor; graceMs: number },
  ): Rotated;
  /** `applied` is false if it was revoked before. */
  revokeKey(actor: Actor, publicId: string): { key: KeyRow; applied: boolean };
  changeBalance(actor: Actor, ledgerChange: LedgerChange): LedgerChangeResult;
  /** Refunds a charge in full or in part. */
  refund(actor: Actor, refundRequest: RefundRequest): Refunded;
  /** Creates all of them, or none. Returns them in the order of their codes. */
  createVouchers(actor: Actor, created: NewVouchers): VoucherRow[];
  /** Throws for a redeemed voucher. */
  revokeVoucher(actor: Actor, publicId: string): Revoked;
  /** Releases a reserve that a gateway left when it crashed. Returns false if a gateway is running. */
  releaseReserve(account: string): boolean;
}

export function admin(connection: Connection, isGatewayRunning: () => boolean): Admin {
  const accounts = accountTable(connection);
  const keys = keyTable(connection);
  const vouchers = voucherTable(connection);
  const change = prepareChange(connection);
  return {
    createAccount: (actor, name, overdraft) =>
      change(actor, { command: "accounts create", subject: name }, () => {
        if (accounts.find(name))
          throw new StoreError(
            `account ${JSON.stringify(name)} exists already: tollgate accounts show ${name} shows it`,
          );
        const result = accounts.insert({ name, overdraft, createdAt: actor.at });
        return { result, detail: overdraftDetail(overdraft) };
      }),
    setOverdraft: (actor, name, overdraft) =>
      change(actor, { command: "accounts set", subject: name }, () => {
        const account = accounts.findOrThrow(name);
        refuseOverdraft(account, overdraft);
        accounts.setOverdraft(account.id, overdraft);
        return { result: accounts.findOrThrow(name), detail: overdraftDetail(overdraft) };
      }),
    setDisabled: (actor, name, disabled) =>
      change(
        actor,
        { command: disabled ? "accounts disable" : "accounts enable", subject: name },
        () => {
          accounts.setDisabled(accounts.findOrThrow(name).id, disabled);
          return { result: accounts.findOrThrow(name), detail: null };
        },
      ),
    createKey: (actor, account, key) =>
      change(actor, { command: "keys create", subject: key.publicId }, () => {
        const existing = accounts.find(account);
        const owner =
          existing ?? accounts.insert({ name: account, overdraft: 0n, createdAt: actor.at });
        keys.insert({ ...key, accountId: owner.id });
        const result = {
          key: keys.findOrThrow(key.publicId),
          createdAccount: existing === undefined,
        };
        return { result, detail: `account ${account}` };
      }),
    changeKey: (actor, publicId, changes) =>
      change(actor, { command: "keys set", subject: publicId }, () => ({
        result: changeKey(keys, publicId, changes),
        detail: changesDetail(changes),
      })),
    rotateKey: (actor, publicId, rotation) =>
      change(actor, { command: "keys rotate", subject: publicId }, () => {
        const result = rotateKey(keys, actor, publicId, rotation);
        return { result, detail: rotationDetail(result) };
      }),
    revokeKey: (actor, publicId) =>
      change(actor, { command: "keys revoke", subject: publicId }, () => {
        const applied = keys.revoke(keys.findOrThrow(publicId).id, actor.at);
        return { result: { key: keys.findOrThrow(publicId), applied }, detail: null, applied };
      }),
    changeBalance: (actor, ledgerChange) =>
      change(
        actor,
        { command: `balance ${ledgerChange.kind}`, subject: ledgerChange.account },
        () => {
          const result = changeBalance(
            connection,
            actor,
            accounts.findOrThrow(ledgerChange.account),
            ledgerChange,
          );
          return { result, detail: ledgerDetail(ledgerChange), applied: result.applied };
        },
      ),
    refund: (actor, refundRequest) =>
      change(actor, { command: "balance refund", subject: refundRequest.request }, () => {
        const result = refund(connection, actor, refundRequest);
        const detail = ledgerDetail({ amount: result.amount, ref: refundRequest.ref });
        return { result, detail, applied: result.applied };
      }),
    createVouchers: (actor, { codes, ...settings }) => {
      const detail = voucherDetail({ codes, ...settings });
      const create = (code: NewVouchers["codes"][number]): VoucherRow =>
        change(actor, { command: "vouchers create", subject: code.publicId }, () => {
          vouchers.insert({ ...code, ...settings, createdAt: actor.at });
          return { result: vouchers.findOrThrow(code.publicId), detail };
        });
      return connection.sqlite.transaction(() => codes.map(create)).immediate();
    },
    revokeVoucher: (actor, publicId) =>
      change(actor, { command: "vouchers revoke", subject: publicId }, () => {
        const result = revokeVoucher(vouchers, actor, publicId);
        return { result, detail: null, applied: result.applied };
      }),
    releaseReserve(account) {
      // Also before the transaction, because the answer can take 200 ms, and the gateway must not wait for it.
      if (isGatewayRunning()) return false;
      return connection.sqlite
        .transaction(() => {
          if (isGatewayRunning()) return false;
          accounts.releaseReserve(accounts.findOrThrow(account).id);
          return true;
        })
        .immediate();
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

function overdraftDetail(overdraft: bigint): string {
  return `overdraft ${formatRoubles(overdraft)}`;
}

/** For the admin log. The note is in the ledger. */
function ledgerDetail({ amount, ref }: Pick<LedgerChange, "amount" | "ref">): string {
  return ref === null ? formatRoubles(amount) : `${formatRoubles(amount)} ref ${ref}`;
}

function changeBalance(
  connection: Connection,
  actor: Actor,
  account: AccountRow,
  ledgerChange: LedgerChange,
): LedgerChangeResult {
  const ledger = ledgerTable(connection);
  const amount = ledgerChange.kind === "debit" ? -ledgerChange.amount : ledgerChange.amount;
  if (ledgerChange.ref !== null) {
    const before = ledger.findByRef(ledgerChange.ref);
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
  const balance = ledger.append({
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

/** The result of a change, and its detail for the admin log. */
interface Changed<T> {
  result: T;
  detail: string | null;
  applied?: boolean;
}

type Change = <T>(
  actor: Actor,
  logged: { command: string; subject: string },
  work: () => Changed<T>,
) => T;

function prepareChange({ db, sqlite }: Connection): Change {
  return ({ at, name }, { command, subject }, work) =>
    sqlite
      .transaction(() => {
        const { result, detail, applied = true } = work();
        if (applied)
          db.insert(adminLog)
            .values({ id: newRowId, at, actor: name, command, subject, detail })
            .run();
        return result;
      })
      .immediate();
}
