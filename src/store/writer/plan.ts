import {
  BatchMoney,
  type MoneyState,
  type PlannedMoney,
  type PlannedRequest,
} from "./batchMoney.ts";
import {
  dailyFiguresOf,
  isCharged,
  totalsOf,
  type DailyFigure,
  type DailyTotal,
} from "./dailyTotal.ts";
import { Redemptions, type VoucherState } from "./redemption.ts";
import type { AttemptRecord, RecordedFigure, WireRecord } from "./requestRecord.ts";
import type { WireBatch, WireOperation, WriteResult } from "./writerMessages.ts";

/** What a transaction reads before it writes a batch. */
export interface BatchNeeds {
  readonly batch: WireBatch;
  /** Without the late row of a request that ends in the same batch: only its end is written. */
  readonly records: readonly WireRecord[];
  /** The accounts of requests and targets. */
  readonly settled: ReadonlySet<number>;
  /** The accounts that change, and those that new rows name. */
  readonly accounts: ReadonlySet<number>;
  /** The accounts and the rotation chains whose money changes. */
  readonly moved: { readonly accounts: ReadonlySet<number>; readonly chains: ReadonlySet<number> };
  /** The keys that change, and those that new rows name, with their accounts. */
  readonly keys: ReadonlyMap<number, number>;
  /** The first keys of the rotation chains, with their accounts. */
  readonly chains: ReadonlyMap<number, number>;
  /** The public ids of the requests that may have a row. */
  readonly lateRows: readonly string[];
  readonly vouchers: readonly number[];
}

/** What the transaction has found: at least all that moves. */
export interface BatchState extends MoneyState {
  /** The row ids of requests, by public id. */
  readonly lateRows: ReadonlyMap<string, number>;
  readonly vouchers: ReadonlyMap<number, VoucherState>;
}

/** The change of a key. Without a time its last use stays. */
interface PlannedKey {
  readonly id: number;
  readonly charged?: bigint;
  readonly at?: number;
  readonly address?: string | null;
}

/** The rows that a batch writes, by table. Each engine writes them in the order that its triggers want. */
export interface BatchPlan
  extends Omit<PlannedMoney, "charged">, Pick<Redemptions, "credits" | "redeemed"> {
  /** Rows of running requests that end. Their charges come before those of `inserted`. */
  readonly ended: readonly (PlannedRequest & { readonly id: number })[];
  readonly inserted: readonly PlannedRequest[];
  readonly attempts: readonly PlannedAttempt[];
  readonly figures: readonly PlannedFigure[];
  readonly keys: readonly PlannedKey[];
  readonly totals: readonly DailyTotal[];
  readonly dailyFigures: readonly DailyFigure[];
  readonly owners: readonly RecordedOwners[];
  /** One for each operation, in their order. An engine replaces those of probes, folds and notices. */
  readonly results: readonly WriteResult[];
}

interface PlannedAttempt extends AttemptRecord {
  readonly publicId: string;
  readonly n: number;
}

interface PlannedFigure extends RecordedFigure {
  readonly publicId: string;
}

type Of<Kind extends WireOperation["kind"]> = Extract<WireOperation, { kind: Kind }>;
type RecordedOwners = Omit<Of<"recordOwners">, "kind">;

export function needsOf(batch: WireBatch): BatchNeeds {
  const records = recordsOf(batch.operations);
  const settled = new Set<number>();
  const moved = { accounts: new Set<number>(), chains: new Set<number>() };
  const keys = new Map<number, number>();
  const chains = new Map<number, number>();
  const lateRows: string[] = [];
  for (const { row, firstKeyId, mayHaveRow } of records) {
    settled.add(row.accountId);
    keys.set(row.keyId, row.accountId).set(firstKeyId, row.accountId);
    chains.set(firstKeyId, row.accountId);
    if (mayHaveRow) lateRows.push(row.publicId);
    if (!isCharged(row)) continue;
    moved.accounts.add(row.accountId);
    moved.chains.add(firstKeyId);
  }
  for (const { accountId, chains: targets = [] } of batch.reserves) {
    settled.add(accountId);
    moved.accounts.add(accountId);
    for (const { firstKeyId } of targets) {
      keys.set(firstKeyId, accountId);
      chains.set(firstKeyId, accountId);
      moved.chains.add(firstKeyId);
    }
  }
  const accounts = new Set(settled);
  const vouchers: number[] = [];
  for (const operation of batch.operations) {
    if (operation.kind === "touchKey") keys.set(operation.keyId, operation.accountId);
    if (operation.kind === "recordOwners")
      for (const { accountId } of operation.objects) accounts.add(accountId);
    if (operation.kind !== "redeemVoucher") continue;
    const { voucherId, accountId } = operation.redemption;
    vouchers.push(voucherId);
    accounts.add(accountId);
    moved.accounts.add(accountId);
  }
  return { batch, records, settled, accounts, moved, keys, chains, lateRows, vouchers };
}

/** Computes the rows of a batch. Throws InsufficientFunds if a charge is larger than what its account has reserved. */
export function planBatch(needs: BatchNeeds, state: BatchState): BatchPlan {
  const { batch, records } = needs;
  const { operations, reserves, onlyRaise = false } = batch;
  const money = new BatchMoney(state, needs.settled, needs.chains);
  // Credits come first: charges follow from their balances.
  const redemptions = new Redemptions(money, state.vouchers);
  const results = operations.map((operation): WriteResult => {
    if (operation.kind !== "redeemVoucher") return {};
    return { redeemed: redemptions.redeem(operation.redemption) };
  });
  const { credits, redeemed } = redemptions;
  const requests = plannedRequests(records, state.lateRows, money);
  for (const target of reserves) money.reserve(target, onlyRaise);
  const { charged, ...planned } = money.planned();
  const keys = new Map<number, PlannedKey>(charged.map((key) => [key.id, key]));
  const owners: RecordedOwners[] = [];
  for (const operation of operations)
    if (operation.kind === "touchKey") touch(keys, operation);
    else if (operation.kind === "recordOwners") owners.push(eachOnce(operation));
  const totals = totalsOf(records.map(({ row }) => row));
  return {
    ...planned,
    ...requests,
    credits,
    redeemed,
    keys: [...keys.values()],
    totals,
    dailyFigures: dailyFiguresOf(records),
    owners,
    results,
  };
}

/** First the ends of late rows, and then all new rows: so each charge follows from the one before. */
function plannedRequests(
  records: readonly WireRecord[],
  lateRows: ReadonlyMap<string, number>,
  money: BatchMoney,
): Pick<BatchPlan, "ended" | "inserted" | "attempts" | "figures"> {
  const ended: BatchPlan["ended"][number][] = [];
  const attempts: PlannedAttempt[] = [];
  const figures: PlannedFigure[] = [];
  const added: WireRecord[] = [];
  for (const record of records) {
    const { publicId } = record.row;
    const id = record.mayHaveRow ? lateRows.get(publicId) : undefined;
    if (id === undefined) added.push(record);
    else ended.push(Object.assign(money.charge(record), { id }));
    for (const [index, attempt] of record.attempts.entries())
      attempts.push({ publicId, n: index + 1, ...attempt });
    for (const figure of record.figures) figures.push({ publicId, ...figure });
  }
  return { ended, inserted: added.map((record) => money.charge(record)), attempts, figures };
}

/** Of two uses of a key in one batch the last one counts. */
function touch(keys: Map<number, PlannedKey>, { keyId: id, at, address }: Of<"touchKey">): void {
  keys.set(id, { ...keys.get(id), id, at, address });
}

/** One statement cannot change a row twice. */
function eachOnce({ objects, at }: Of<"recordOwners">): RecordedOwners {
  return { objects: [...new Map(objects.map((object) => [object.hash, object])).values()], at };
}

function recordsOf(operations: readonly WireOperation[]): readonly WireRecord[] {
  const records: WireRecord[] = [];
  const ending = new Set<string>();
  for (const operation of operations) {
    if (operation.kind !== "recordRequest") continue;
    const { record } = operation;
    records.push(record);
    if (record.mayHaveRow && record.row.status !== "running") ending.add(record.row.publicId);
  }
  if (ending.size === 0) return records;
  return records.filter(({ row }) => row.status !== "running" || !ending.has(row.publicId));
}
