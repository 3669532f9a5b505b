import { formatRoubles } from "../../lib/money.ts";
import { accountTable, type AccountRow } from "../tables/accounts.ts";
import type { Actor } from "../schema/schema.ts";
import { ledgerTable, refTakenError, type Charge, type LedgerRow } from "../tables/ledger.ts";
import { requestTable } from "../tables/requests.ts";
import type { Connection } from "../connection.ts";
import { NotFoundError, StoreError } from "../storeError.ts";

/** `request` is a public id. `amount` is positive nano-roubles; null: the rest of the charge. */
export interface RefundRequest {
  request: string;
  amount: bigint | null;
  ref: string | null;
  note: string | null;
}

/** `applied` is false if the same refund was made before with this ref. */
export interface Refunded {
  account: AccountRow;
  amount: bigint;
  applied: boolean;
}

/**
 * Refunds a charge in full or in part, and never more than the charge in total. A trigger lowers the spending of the
 * key's rotation chain. Runs in the caller's transaction. Throws StoreError.
 */
export async function refund(
  connection: Connection,
  actor: Actor,
  refundRequest: RefundRequest,
): Promise<Refunded> {
  const ledger = ledgerTable(connection);
  const { request, ref, note } = refundRequest;
  const earlier = ref === null ? undefined : await ledger.findByRef(ref);
  const found = await ledger.findCharge(request);
  if (!found) throw earlier ? refTakenError(earlier) : await notChargedError(connection, request);
  const { accountId, seq } = found;
  const accounts = accountTable(connection);
  const { name } = await accounts.lockById(accountId);
  // The request may have been folded before the account was locked.
  const charge = (await ledger.findCharge(request)) ?? found;
  const refunds = await ledger.refundsOf(charge);
  if (earlier) {
    const index = refunds.findIndex(({ id }) => id === earlier.id);
    // "The rest" means the rest at that time.
    const restThen = restOf(charge, refunds.slice(0, index));
    const isSame = index >= 0 && earlier.amount === (refundRequest.amount ?? restThen);
    if (!isSame) throw refTakenError(earlier);
    return {
      account: await accounts.findOrThrow(name),
      amount: earlier.amount,
      applied: false,
    };
  }
  const rest = restOf(charge, refunds);
  const amount = refundRequest.amount ?? rest;
  refuseTooMuch(request, { charge, rest, amount });
  if (!charge.isKept) throw foldedError(request, name);
  await ledger.append({
    accountId,
    kind: "refund",
    amount,
    ref,
    note,
    actor: actor.name,
    at: actor.at,
    refundOf: seq,
  });
  return { account: await accounts.findOrThrow(name), amount, applied: true };
}

function restOf(charge: Charge, refunds: readonly LedgerRow[]): bigint {
  return refunds.reduce((rest, { amount }) => rest - amount, charge.amount);
}

async function notChargedError(connection: Connection, request: string): Promise<StoreError> {
  const row = await requestTable(connection).find(request);
  const id = JSON.stringify(request);
  if (!row) {
    return new NotFoundError(
      `there is no charge of request ${id}: \`tollgate requests\` shows the latest requests`,
    );
  }
  return new StoreError(
    row.status === "running"
      ? `request ${id} is still running and not charged yet: refund it when it is settled`
      : `request ${id} was not charged (it is ${row.status}): there is nothing to refund`,
  );
}

function refuseTooMuch(
  request: string,
  { charge, rest, amount }: { charge: Charge; rest: bigint; amount: bigint },
): void {
  const id = JSON.stringify(request);
  if (charge.amount === 0n) {
    throw new StoreError(`request ${id} cost nothing: there is nothing to refund`);
  }
  if (rest === 0n) {
    throw new StoreError(`all of the charge of request ${id} was refunded before`);
  }
  if (amount > rest) {
    throw new StoreError(
      `request ${id} has ${formatRoubles(rest)} roubles of its charge left, less than ${formatRoubles(amount)}`,
    );
  }
}

/** Only the row of the request tells the key and the day of the charge. */
function foldedError(request: string, account: string): StoreError {
  return new StoreError(
    `request ${JSON.stringify(request)} is older than [database] keep_requests keeps: use \`tollgate balance credit ${account}\``,
  );
}
