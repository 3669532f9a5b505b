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
import { StoreError, type Connection } from "../sqlite.ts";

/** `amount` is positive nano-roubles, whichever way it goes. */
export interface LedgerChange {
  account: string;
  kind: "credit" | "debit";
  amount: bigint;
  ref: string | null;
  note: string | null;
}

/** `applied` is false when the same booking stood there already. */
export interface LedgerChangeResult {
  account: AccountRow;
  applied: boolean;
}

/**
 * Every change a person makes, each one transaction that also writes the admin log, unless it was made before
 * (`applied` is false). They throw StoreError.
 */
export interface Admin {
  createAccount(actor: Actor, name: string, overdraft: bigint): AccountRow;
  setOverdraft(actor: Actor, name: string, overdraft: bigint): AccountRow;
  setDisabled(actor: Actor, name: string, disabled: boolean): AccountRow;
  /** Makes the account too if it is new. */
  createKey(
    actor: Actor,
    account: string,
    key: Omit<NewKey, "accountId">,
  ): { key: KeyRow; createdAccount: boolean };
  /** A budget is that of all keys of its line. */
  changeKey(actor: Actor, publicId: string, changes: KeyChanges): KeyRow;
  /** Puts a new key in the place of one, which works for `graceMs` more. */
  rotateKey(
    actor: Actor,
    publicId: string,
    rotation: { successor: Successor; graceMs: number },
  ): Rotated;
  /** `applied` is false when it was revoked before. */
  revokeKey(actor: Actor, publicId: string): { key: KeyRow; applied: boolean };
  changeBalance(actor: Actor, booking: LedgerChange): LedgerChangeResult;
  /** Gives back what a request was charged, or a part of it. */
  refund(actor: Actor, refunding: RefundRequest): Refunded;
}

export function admin(connection: Connection): Admin {
  const accounts = accountTable(connection);
  const keys = keyTable(connection);
  const change = changer(connection);
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
    changeBalance: (actor, booking) =>
      change(actor, { command: `balance ${booking.kind}`, subject: booking.account }, () => {
        const result = book(connection, actor, accounts.findOrThrow(booking.account), booking);
        return { result, detail: bookingDetail(booking), applied: result.applied };
      }),
    refund: (actor, refunding) =>
      change(actor, { command: "balance refund", subject: refunding.request }, () => {
        const result = refund(connection, actor, refunding);
        const detail = bookingDetail({ amount: result.amount, ref: refunding.ref });
        return { result, detail, applied: result.applied };
      }),
  };
}

function refuseOverdraft(account: AccountRow, overdraft: bigint): void {
  const name = JSON.stringify(account.name);
  if (available({ ...account, overdraft }) < 0n) {
    throw new StoreError(
      `the overdraft of ${name} cannot be ${formatRoubles(overdraft)}: more than that is spent or held`,
    );
  }
  const most = SPENDABLE_MAX - account.balance;
  if (overdraft > account.overdraft && overdraft > most) {
    throw new StoreError(
      `the balance of ${name} with that overdraft would be larger than can be kept: choose one of at most ${formatRoubles(most)} roubles`,
    );
  }
}

function overdraftDetail(overdraft: bigint): string {
  return `overdraft ${formatRoubles(overdraft)}`;
}

/** What the log keeps of a booking; the note stands in the ledger. */
function bookingDetail({ amount, ref }: Pick<LedgerChange, "amount" | "ref">): string {
  return ref === null ? formatRoubles(amount) : `${formatRoubles(amount)} ref ${ref}`;
}

function book(
  connection: Connection,
  actor: Actor,
  account: AccountRow,
  booking: LedgerChange,
): LedgerChangeResult {
  const ledger = ledgerTable(connection);
  const amount = booking.kind === "debit" ? -booking.amount : booking.amount;
  if (booking.ref !== null) {
    const before = ledger.findByRef(booking.ref);
    if (before) {
      const isSame =
        before.accountId === account.id && before.kind === booking.kind && before.amount === amount;
      if (!isSame) throw refTakenError(before);
      return { account, applied: false };
    }
  }
  if (booking.kind === "debit" && booking.amount > available(account)) {
    throw new StoreError(
      `account ${JSON.stringify(account.name)} has ${formatRoubles(available(account))} roubles available, less than ${formatRoubles(booking.amount)}`,
    );
  }
  const { kind, ref, note } = booking;
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

/** What a change made; `detail` is what the admin log keeps of it, unless `applied` is false. */
interface Changed<T> {
  result: T;
  detail: string | null;
  applied?: boolean;
}

type Change = <T>(
  actor: Actor,
  named: { command: string; subject: string },
  work: () => Changed<T>,
) => T;

function changer({ db, sqlite }: Connection): Change {
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
