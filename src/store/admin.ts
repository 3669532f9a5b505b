import { formatRoubles } from "../lib/money.ts";
import { accountTable, available, type AccountRow } from "./accounts.ts";
import { keyTable, type KeyRow, type NewKey } from "./keys.ts";
import { ledgerTable, type LedgerKind } from "./ledger.ts";
import { adminLog, newRowId } from "./schema.ts";
import { StoreError, type Connection } from "./sqlite.ts";

/** Who does it and when, for the admin log. */
export interface Actor {
  name: string;
  at: number;
}

/** `amount` is positive nano-roubles, whichever way it goes. */
export interface Booking {
  account: string;
  kind: "credit" | "debit";
  amount: bigint;
  ref: string | null;
  note: string | null;
}

/** `applied` is false when the same booking stood there already. */
export interface Booked {
  account: AccountRow;
  applied: boolean;
}

/** Every change a person makes, each one transaction that also writes the admin log. They throw StoreError. */
export interface Admin {
  createAccount(actor: Actor, name: string, overdraft: bigint): AccountRow;
  setOverdraft(actor: Actor, name: string, overdraft: bigint): AccountRow;
  setDisabled(actor: Actor, name: string, disabled: boolean): AccountRow;
  /** Makes the account too if it is new. */
  createKey(
    actor: Actor,
    account: string,
    key: Omit<NewKey, "accountId">,
  ): { createdAccount: boolean };
  /** `applied` is false when it was revoked before. */
  revokeKey(actor: Actor, publicId: string): { key: KeyRow; applied: boolean };
  book(actor: Actor, booking: Booking): Booked;
}

export function admin(connection: Connection): Admin {
  const accounts = accountTable(connection);
  const keys = keyTable(connection);
  const change = changer(connection);
  const find = (name: string): AccountRow => {
    const account = accounts.find(name);
    if (!account) {
      throw new StoreError(
        `there is no account ${JSON.stringify(name)}: tollgate accounts list shows them`,
      );
    }
    return account;
  };
  return {
    createAccount: (actor, name, overdraft) =>
      change(actor, "accounts create", name, `overdraft ${formatRoubles(overdraft)}`, () => {
        if (accounts.find(name))
          throw new StoreError(`account ${JSON.stringify(name)} exists already`);
        return accounts.insert({ name, overdraft, createdAt: actor.at });
      }),
    setOverdraft: (actor, name, overdraft) =>
      change(actor, "accounts set", name, `overdraft ${formatRoubles(overdraft)}`, () => {
        const account = find(name);
        if (available({ ...account, overdraft }) < 0n) {
          throw new StoreError(
            `the overdraft of ${JSON.stringify(name)} cannot be ${formatRoubles(overdraft)}: more than that is spent or held`,
          );
        }
        accounts.setOverdraft(account.id, overdraft);
        return find(name);
      }),
    setDisabled: (actor, name, disabled) =>
      change(actor, disabled ? "accounts disable" : "accounts enable", name, null, () => {
        accounts.setDisabled(find(name).id, disabled);
        return find(name);
      }),
    createKey: (actor, account, key) =>
      change(actor, "keys create", key.publicId, `account ${account}`, () => {
        const existing = accounts.find(account);
        const owner =
          existing ?? accounts.insert({ name: account, overdraft: 0n, createdAt: actor.at });
        keys.insert({ ...key, accountId: owner.id });
        return { createdAccount: existing === undefined };
      }),
    revokeKey: (actor, publicId) =>
      change(actor, "keys revoke", publicId, null, () => {
        const key = keys.find(publicId);
        if (!key)
          throw new StoreError(
            `there is no key ${JSON.stringify(publicId)}: tollgate keys list shows them`,
          );
        const applied = keys.revoke(key.id, actor.at);
        return { key: keys.find(publicId) ?? key, applied };
      }),
    book: (actor, booking) =>
      change(actor, `balance ${booking.kind}`, booking.account, bookingDetail(booking), () =>
        book(connection, actor, find(booking.account), booking),
      ),
  };
}

/** What the log keeps of a booking; the note stands in the ledger. */
function bookingDetail({ amount, ref }: Booking): string {
  return ref === null ? formatRoubles(amount) : `${formatRoubles(amount)} ref ${ref}`;
}

function book(connection: Connection, actor: Actor, account: AccountRow, booking: Booking): Booked {
  const ledger = ledgerTable(connection);
  const amount = booking.kind === "debit" ? -booking.amount : booking.amount;
  if (booking.ref !== null) {
    const before = ledger.findByRef(booking.ref);
    if (before) {
      refuseOtherUse(booking.ref, before, { accountId: account.id, kind: booking.kind, amount });
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
  });
  return { account: { ...account, balance }, applied: true };
}

interface Use {
  accountId: number;
  kind: LedgerKind;
  amount: bigint;
}

function refuseOtherUse(ref: string, before: Use, now: Use): void {
  const same =
    before.accountId === now.accountId && before.kind === now.kind && before.amount === now.amount;
  if (!same) {
    throw new StoreError(
      `ref ${JSON.stringify(ref)} was used before for another booking (${before.kind} of ${formatRoubles(before.amount)}): use a new ref`,
    );
  }
}

type Change = <T>(
  actor: Actor,
  command: string,
  subject: string,
  detail: string | null,
  work: () => T,
) => T;

function changer({ db, sqlite }: Connection): Change {
  return (actor, command, subject, detail, work) =>
    sqlite
      .transaction(() => {
        const result = work();
        db.insert(adminLog)
          .values({ id: newRowId, at: actor.at, actor: actor.name, command, subject, detail })
          .run();
        return result;
      })
      .immediate();
}
