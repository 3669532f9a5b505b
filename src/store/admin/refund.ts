import { formatRoubles } from "../../lib/money.ts";
import { accountTable, type AccountRow } from "../tables/accounts.ts";
import type { Actor } from "../schema/schema.ts";
import { chargeRef, ledgerTable, refTakenError, type LedgerRow } from "../tables/ledger.ts";
import { requestTable } from "../tables/requests.ts";
import { StoreError, type Connection } from "../sqlite.ts";

/** `request` is its public id. `amount` is positive nano-roubles; null: all that is left of the charge. */
export interface RefundRequest {
  request: string;
  amount: bigint | null;
  ref: string | null;
  note: string | null;
}

/** `applied` is false when the same refund stood there already. */
export interface Refunded {
  account: AccountRow;
  amount: bigint;
  applied: boolean;
}

/**
 * Gives back what a request was charged, or a part of it, and never more in sum. A trigger lowers what
 * its key has spent: for a key that came by a rotation, what its whole line has. The caller holds the
 * transaction. Throws StoreError, which says what to do.
 */
export function refund(connection: Connection, actor: Actor, refunding: RefundRequest): Refunded {
  const ledger = ledgerTable(connection);
  const { request, ref, note } = refunding;
  const earlier = ref === null ? undefined : ledger.findByRef(ref);
  const charge = ledger.findByRef(chargeRef(request));
  if (!charge) throw earlier ? refTakenError(earlier) : notCharged(connection, request);
  const refunds = ledger.refundsOf(charge.id);
  const accountNow = (): AccountRow => accountTable(connection).findById(charge.accountId);
  if (earlier) {
    // "All" was then what the refunds before it had left.
    const leftThen = leftOf(
      charge,
      refunds.slice(
        0,
        refunds.findIndex(({ id }) => id === earlier.id),
      ),
    );
    const isSame =
      earlier.refundOf === charge.id && earlier.amount === (refunding.amount ?? leftThen);
    if (!isSame) throw refTakenError(earlier);
    return { account: accountNow(), amount: earlier.amount, applied: false };
  }
  const left = leftOf(charge, refunds);
  const amount = refunding.amount ?? left;
  refuseTooMuch(request, { charge, left, amount });
  refuseFolded(connection, request, accountNow().name);
  ledger.append({
    accountId: charge.accountId,
    kind: "refund",
    amount,
    ref,
    note,
    actor: actor.name,
    at: actor.at,
    refundOf: charge.id,
  });
  return { account: accountNow(), amount, applied: true };
}

function leftOf(charge: LedgerRow, refunds: readonly LedgerRow[]): bigint {
  return refunds.reduce((left, { amount }) => left - amount, -charge.amount);
}

function notCharged(connection: Connection, request: string): StoreError {
  const row = requestTable(connection).find(request);
  const id = JSON.stringify(request);
  if (!row) {
    return new StoreError(
      `there is no charge of request ${id}: \`tollgate requests\` shows the latest requests`,
    );
  }
  return new StoreError(
    row.status === "running"
      ? `request ${id} is still running and not charged yet: refund it when it has ended`
      : `request ${id} was not charged (it is ${row.status}): there is nothing to give back`,
  );
}

function refuseTooMuch(
  request: string,
  { charge, left, amount }: { charge: LedgerRow; left: bigint; amount: bigint },
): void {
  const id = JSON.stringify(request);
  if (charge.amount === 0n) {
    throw new StoreError(`request ${id} cost nothing: there is nothing to give back`);
  }
  if (left === 0n) {
    throw new StoreError(`all of the charge of request ${id} was refunded before`);
  }
  if (amount > left) {
    throw new StoreError(
      `request ${id} has ${formatRoubles(left)} roubles of its charge left, less than ${formatRoubles(amount)}`,
    );
  }
}

/** Which key spent it, and on which day, is only known as long as the request is kept. */
function refuseFolded(connection: Connection, request: string, account: string): void {
  if (requestTable(connection).find(request)) return;
  throw new StoreError(
    `request ${JSON.stringify(request)} is older than [database] keep_requests keeps: give the money back with \`tollgate balance credit ${account}\``,
  );
}
