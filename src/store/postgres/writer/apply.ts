import { assert } from "../../../lib/assert.ts";
import type { AccountState, ChainState, PlannedRequest } from "../../writer/batchMoney.ts";
import type { BatchOutcome } from "../../writer/outcome.ts";
import {
  needsOf,
  planBatch,
  type BatchNeeds,
  type BatchPlan,
  type BatchState,
} from "../../writer/plan.ts";
import type { VoucherState } from "../../writer/redemption.ts";
import type { WireBatch } from "../../writer/writerMessages.ts";
import { Fenced } from "./failures.ts";
import { isEmpty, joined, lockedOutcome, partOf, wholeOf, type PartOutcome } from "./parts.ts";
import {
  arrayOf,
  BEGIN,
  COMMIT,
  SHORT_WAIT,
  statement,
  USUAL_WAIT,
  type Row,
  type Session,
  type Statement,
} from "./session.ts";
import * as sql from "./statements.ts";

/** The lease of a batch, and the number that tells whether it was committed. */
export interface BatchNumber {
  readonly lease: number;
  readonly number: number;
}

/**
 * What a transaction does with accounts and keys that another transaction has locked. `wait`: it waits for the lock timeout
 * of its session. `skip`: it leaves the accounts out, and the outcome names them as `locked`.
 */
export type LockedRows = "wait" | "skip";

/**
 * Writes a batch without folds in one transaction of two round trips: the first one locks and reads, the second one writes and
 * commits. `onComputed` gets what the second one commits, before it is sent. Throws Fenced, InsufficientFunds, ConnectionLost and the server's errors.
 */
export async function applyBatch(
  session: Session,
  batch: WireBatch,
  number: BatchNumber,
  lockedRows: LockedRows,
  onComputed: (outcome: BatchOutcome) => void,
): Promise<BatchOutcome> {
  const whole = wholeOf(batch);
  return await session.transaction(async () => {
    const needs = needsOf(batch);
    const answers = await session.run(...readsOf(needs, number, lockedRows));
    const [, , fence, accounts, keys] = answers;
    if (fence?.length !== 1) throw new Fenced("another replica has ended this one");
    const locked = lockedRows === "skip" ? lackingAccounts(needs, accounts, keys) : new Set();
    const isFree = (id: number | undefined): boolean => id === undefined || !locked.has(id);
    const free = partOf(whole, isFree);
    const freeNeeds = locked.size === 0 ? needs : needsOf(free);
    const state = stateOf(answers);
    // The rows of requests have no foreign keys.
    for (const id of freeNeeds.settled)
      assert(state.accounts.has(id), "a request without an account");
    const plan = planBatch(freeNeeds, state);
    const replies = plan.results.map((result) => ({ ok: true as const, result }));
    const parts: PartOutcome[] = [{ part: free, outcome: { replies, effects: [plan.effect] } }];
    const rest = partOf(whole, (id) => !isFree(id));
    if (!isEmpty(rest)) parts.push({ part: rest, outcome: lockedOutcome(rest) });
    const outcome = joined(batch.operations.length, parts);
    onComputed(outcome);
    const statements = writesOf(plan, String(number.lease));
    const written = await session.run(...statements, COMMIT);
    assert(written.length === statements.length + 1, "a statement without an answer");
    return outcome;
  });
}

/** The locks come in this order in every transaction: the replica, accounts, keys, vouchers. */
function readsOf(
  needs: BatchNeeds,
  { lease, number }: BatchNumber,
  lockedRows: LockedRows,
): readonly Statement[] {
  const accounts = arrayOf(needs.accounts);
  const skips = lockedRows === "skip";
  return [
    BEGIN,
    skips ? SHORT_WAIT : USUAL_WAIT,
    statement(sql.FENCE, String(number), String(lease)),
    statement(skips ? sql.LOCK_FREE_ACCOUNTS : sql.LOCK_ACCOUNTS, accounts),
    statement(skips ? sql.LOCK_FREE_KEYS : sql.LOCK_KEYS, arrayOf(needs.keys.keys())),
    statement(sql.READ_BLOCKS, accounts, String(lease)),
    statement(sql.FIND_LATE_ROWS, JSON.stringify(needs.lateRows)),
    ...(needs.vouchers.length > 0 ? [statement(sql.LOCK_VOUCHERS, arrayOf(needs.vouchers))] : []),
  ];
}

/** The accounts that were skipped: the answers lack their rows, or those of their keys. */
function lackingAccounts(
  needs: BatchNeeds,
  accounts: readonly Row[] = [],
  keys: readonly Row[] = [],
): ReadonlySet<number> {
  const [found, foundKeys] = [idsOf(accounts), idsOf(keys)];
  const lacking = [...needs.accounts].filter((id) => !found.has(id));
  for (const [keyId, accountId] of needs.keys) if (!foundKeys.has(keyId)) lacking.push(accountId);
  return new Set(lacking);
}

function idsOf(rows: readonly Row[]): ReadonlySet<number> {
  return new Set(rows.map((row) => Number(row["id"])));
}

function stateOf(answers: readonly (readonly Row[])[]): BatchState {
  const [, , , accounts = [], keys = [], blocks = [], late = [], vouchers = []] = answers;
  const ofAccounts = new Map<number, Row>();
  const ofChains = new Map<number, Row>();
  for (const row of blocks) {
    const keyId = Number(row["key_id"]);
    if (keyId === 0) ofAccounts.set(Number(row["account_id"]), row);
    else ofChains.set(keyId, row);
  }
  return {
    accounts: mapOf(accounts, "id", (row) => accountOf(row, ofAccounts.get(Number(row["id"])))),
    chains: mapOf(keys, "id", (row) => chainOf(row, ofChains.get(Number(row["id"])))),
    lateRows: new Map(late.map((row) => [row["public_id"] as string, Number(row["id"])])),
    vouchers: mapOf(vouchers, "id", voucherOf),
  };
}

function mapOf<Value>(
  rows: readonly Row[],
  id: string,
  valueOf: (row: Row) => Value,
): ReadonlyMap<number, Value> {
  return new Map(rows.map((row) => [Number(row[id]), valueOf(row)]));
}

function accountOf(row: Row, block: Row | undefined): AccountState {
  const reserved = (block?.["own"] ?? 0n) as bigint;
  return {
    balance: row["balance"] as bigint,
    overdraft: row["overdraft"] as bigint,
    ledgerSeq: row["ledger_seq"] as bigint,
    reserved,
    others: (row["reserved"] as bigint) - reserved,
  };
}

function chainOf(row: Row, block: Row | undefined): ChainState {
  return {
    spent: row["spent"] as bigint,
    budget: row["budget"] as bigint | null,
    reserved: (block?.["own"] ?? 0n) as bigint,
    others: (block?.["others"] ?? 0n) as bigint,
  };
}

function voucherOf(row: Row): VoucherState {
  const numberOrNull = (value: unknown): number | null => (value === null ? null : Number(value));
  return {
    publicId: row["public_id"] as string,
    amount: row["amount"] as bigint,
    expiresAt: numberOrNull(row["expires_at"]),
    revokedAt: numberOrNull(row["revoked_at"]),
    redeemedById: numberOrNull(row["redeemed_by"]),
  };
}

/** Triggers want the account first, and then its charges and its blocks. */
function writesOf(plan: BatchPlan, lease: string): readonly Statement[] {
  const { accounts, ended, inserted, attempts, figures, blocks, owners } = plan;
  const requestIds = ended.map(({ id }) => id);
  return [
    ...plan.credits.flatMap((credit) => ifAny([credit], sql.INSERT_CREDIT)),
    ...ifAny(plan.redeemed, sql.END_VOUCHERS),
    ...ifAny(
      accounts.filter(({ isMoved }) => isMoved),
      sql.MOVE_ACCOUNTS,
    ),
    ...ifAny(
      accounts.filter(({ isMoved }) => !isMoved),
      sql.RESERVE_ACCOUNTS,
    ),
    ...ifAnyRequest(ended, sql.END_REQUESTS, arrayOf(requestIds)),
    ...ifAnyRequest(inserted, sql.INSERT_REQUESTS, lease),
    ...ifAny(attempts, sql.INSERT_ATTEMPTS, publicIdsOf(attempts)),
    ...ifAny(figures, sql.INSERT_FIGURES, publicIdsOf(figures)),
    ...ifAny(
      blocks.filter(({ amount }) => amount > 0n),
      sql.SET_BLOCKS,
      lease,
    ),
    ...ifAny(
      blocks.filter(({ amount }) => amount === 0n),
      sql.REMOVE_BLOCKS,
      lease,
    ),
    ...ifAny(plan.keys, sql.CHANGE_KEYS),
    ...ifAny(plan.totals, sql.ADD_TO_TOTALS),
    ...ifAny(plan.dailyFigures, sql.ADD_TO_FIGURES),
    ...owners.flatMap(({ objects, at }) => ifAny(objects, sql.RECORD_OWNERS, String(at))),
    ...removeExpired(owners),
    ...ifAny([...plan.wanted], sql.TELL_WANTED),
  ];
}

function publicIdsOf(rows: readonly { readonly publicId: string }[]): string {
  return JSON.stringify([...new Set(rows.map(({ publicId }) => publicId))]);
}

function removeExpired(owners: BatchPlan["owners"]): readonly Statement[] {
  const last = owners.at(-1);
  if (last === undefined) return [];
  const recorded = owners.reduce((sum, { objects }) => sum + objects.length, 0);
  return [statement(sql.REMOVE_EXPIRED_OWNERS, String(last.at), String(2 * recorded))];
}

function ifAny(rows: readonly unknown[], text: string, ...more: string[]): readonly Statement[] {
  return rows.length === 0 ? [] : [statement(text, sql.jsonOf(rows), ...more)];
}

/** The many columns of these rows have no bigint. */
function ifAnyRequest(
  rows: readonly PlannedRequest[],
  text: string,
  more: string,
): readonly Statement[] {
  return rows.length === 0 ? [] : [statement(text, JSON.stringify(rows), more)];
}
