import { assert } from "../../../lib/assert.ts";
import { accountEffect, GroupCharges, type GroupAccount } from "../../writer/groupCharges.ts";
import type { BatchOutcome, WriteReply } from "../../writer/outcome.ts";
import type { WireRecord } from "../../writer/requestRecord.ts";
import type { WireBatch, WireOperation, WriteResult } from "../../writer/writerMessages.ts";
import { GroupChains } from "./chains.ts";
import { Fenced } from "./failures.ts";
import { recordOwners } from "./owners.ts";
import { isEmpty, joined, lockedOutcome, partOf, wholeOf, type PartOutcome } from "./parts.ts";
import { Redemptions } from "./redemptions.ts";
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

type Of<Kind extends WireOperation["kind"]> = Extract<WireOperation, { kind: Kind }>;

/**
 * Runs a batch without folds as one transaction of two round trips: the first one locks and reads, the second one writes and
 * commits. `onComputed` gets what the second one commits, before it is sent. Throws Fenced, InsufficientFunds, ConnectionLost and the server's errors.
 */
export async function settle(
  session: Session,
  batch: WireBatch,
  number: BatchNumber,
  lockedRows: LockedRows,
  onComputed: (outcome: BatchOutcome) => void,
): Promise<BatchOutcome> {
  const whole = wholeOf(batch);
  return await session.transaction(async () => {
    const asked = new Batch(batch, number, lockedRows);
    const answers = await session.run(...asked.reads());
    const locked = asked.lockedAccounts(answers);
    const isFree = (id: number | undefined): boolean => id === undefined || !locked.has(id);
    const free = partOf(whole, isFree);
    const batchOf = locked.size === 0 ? asked : new Batch(free, number, lockedRows);
    batchOf.read(answers);
    const { statements, outcome } = batchOf.settle();
    const parts: PartOutcome[] = [{ part: free, outcome }];
    const rest = partOf(whole, (id) => !isFree(id));
    if (!isEmpty(rest)) parts.push({ part: rest, outcome: lockedOutcome(rest) });
    const settled = joined(batch.operations.length, parts);
    onComputed(settled);
    const written = await session.run(...statements, COMMIT);
    assert(written.length === statements.length + 1, "a statement without an answer");
    return settled;
  });
}

/** An account as the batch finds it: what this replica had reserved, and what the others have. */
interface OwnAccount extends GroupAccount {
  readonly ownBefore: bigint;
  readonly others: bigint;
}

class Batch {
  readonly #batch: WireBatch;
  readonly #number: BatchNumber;
  readonly #skipsLocked: boolean;
  readonly #records: readonly WireRecord[];
  readonly #accountIds: ReadonlySet<number>;
  readonly #redemptions: Redemptions;
  readonly #accounts = new Map<number, OwnAccount>();
  readonly #chains: GroupChains;
  /** The row ids of running requests, by public id. */
  readonly #lateRows = new Map<string, bigint>();

  constructor(batch: WireBatch, number: BatchNumber, lockedRows: LockedRows) {
    this.#batch = batch;
    this.#number = number;
    this.#skipsLocked = lockedRows === "skip";
    this.#records = recordsOf(operationsOf(batch, "recordRequest"));
    this.#redemptions = new Redemptions(
      operationsOf(batch, "redeemVoucher").map(({ redemption }) => redemption),
    );
    this.#chains = new GroupChains(batch.reserves, this.#records);
    this.#accountIds = new Set([
      ...this.#records.map(({ row }) => row.accountId),
      ...batch.reserves.map(({ accountId }) => accountId),
    ]);
  }

  /** The locks come in this order in every transaction: the replica, accounts, keys, vouchers. */
  reads(): readonly Statement[] {
    const { lease, number } = this.#number;
    const accounts = arrayOf(this.#lockedIds());
    const late = this.#records.filter(({ mayHaveRow }) => mayHaveRow);
    const skips = this.#skipsLocked;
    return [
      BEGIN,
      skips ? SHORT_WAIT : USUAL_WAIT,
      statement(sql.FENCE, String(number), String(lease)),
      statement(skips ? sql.LOCK_FREE_ACCOUNTS : sql.LOCK_ACCOUNTS, accounts),
      statement(skips ? sql.LOCK_FREE_KEYS : sql.LOCK_KEYS, arrayOf(this.#keys().keys())),
      statement(sql.READ_BLOCKS, accounts, String(lease)),
      statement(sql.FIND_LATE_ROWS, JSON.stringify(late.map(({ row }) => row.publicId))),
      ...(this.#redemptions.accountIds.length > 0 ? [this.#redemptions.lock()] : []),
    ];
  }

  /** The accounts of which the answers to \`reads\` lack rows, because they were skipped. */
  lockedAccounts([, , , accounts, keys]: readonly (readonly Row[])[]): ReadonlySet<number> {
    if (!this.#skipsLocked) return new Set();
    const found = idsOf(accounts);
    const foundKeys = idsOf(keys);
    const lacking = [...this.#lockedIds()].filter((id) => !found.has(id));
    for (const [keyId, accountId] of this.#keys())
      if (!foundKeys.has(keyId)) lacking.push(accountId);
    return new Set(lacking);
  }

  /** The accounts whose rows are locked: those that change, and those that new rows name. */
  #lockedIds(): ReadonlySet<number> {
    const owners = operationsOf(this.#batch, "recordOwners").flatMap(({ objects }) =>
      objects.map(({ accountId }) => accountId),
    );
    return new Set([...this.#accountIds, ...this.#redemptions.accountIds, ...owners]);
  }

  /** The account of each key whose row is locked: a key that changes, or that a new row names. */
  #keys(): ReadonlyMap<number, number> {
    return new Map([
      ...this.#records.flatMap(({ row, firstKeyId }): [number, number][] => [
        [row.keyId, row.accountId],
        [firstKeyId, row.accountId],
      ]),
      ...this.#batch.reserves.flatMap(({ accountId, chains = [] }) =>
        chains.map(({ firstKeyId }): [number, number] => [firstKeyId, accountId]),
      ),
      ...operationsOf(this.#batch, "touchKey").map(({ keyId, accountId }): [number, number] => [
        keyId,
        accountId,
      ]),
    ]);
  }

  read(answers: readonly (readonly Row[])[]): void {
    const [, , fence, accounts, keys, blocks, late, vouchers] = answers as readonly Row[][];
    if (fence?.length !== 1) throw new Fenced("another replica has ended this one");
    const own = new Map<number, bigint>();
    for (const row of blocks ?? [])
      if (row["key_id"] === 0n) own.set(Number(row["account_id"]), row["own"] as bigint);
    for (const row of accounts ?? []) {
      const id = Number(row["id"]);
      const reserved = own.get(id) ?? 0n;
      this.#accounts.set(id, accountOf(row, reserved));
    }
    this.#chains.read(keys ?? [], blocks ?? []);
    for (const row of late ?? [])
      this.#lateRows.set(row["public_id"] as string, row["id"] as bigint);
    this.#redemptions.read(vouchers ?? []);
  }

  settle(): { readonly statements: readonly Statement[]; readonly outcome: BatchOutcome } {
    const { reserves, onlyRaise = false } = this.#batch;
    // Credits come first: charges follow from their balances.
    const redeemed = this.#redemptions.redeem((id) => this.#account(id));
    const group = new GroupCharges((id) => {
      const account = this.#account(id);
      return Object.assign(account, { firstSeq: account.seq });
    });
    const rows = this.#place(group);
    group.reserve(reserves, onlyRaise);
    this.#chains.settle(group.chains, reserves, onlyRaise);
    for (const id of this.#accountIds) group.account(id);
    return {
      statements: [
        ...redeemed.statements,
        // Triggers want the account first, and then its charges and its blocks.
        ...this.#moveAccounts(group),
        ...rows,
        ...this.#setBlocks(group),
        ...this.#changeKeys(),
        ...this.#addTotals(group),
        ...recordOwners(operationsOf(this.#batch, "recordOwners")),
        ...this.#tellWanted(group),
      ],
      outcome: { replies: this.#replies(redeemed.results), effects: [this.#effect(group)] },
    };
  }

  #account(id: number): OwnAccount {
    const account = this.#accounts.get(id);
    assert(account !== undefined, "a request without an account");
    return account;
  }

  /** First the ends of late rows, and then all new rows: so each charge follows from the one before. */
  #place(group: GroupCharges): readonly Statement[] {
    const place = (record: WireRecord): Record<string, unknown> => {
      const { seq, balance } = group.record(record);
      return rowOf(record, seq, balance);
    };
    const isLate = ({ mayHaveRow, row }: WireRecord): boolean =>
      mayHaveRow && this.#lateRows.has(row.publicId);
    const ends = this.#records.filter(isLate).map((record) => {
      const id = String(this.#lateRows.get(record.row.publicId));
      return Object.assign(place(record), { id });
    });
    const inserted = this.#records.filter((record) => !isLate(record)).map(place);
    const attempts = this.#records.flatMap((record) => attemptRows(record));
    const attempted = new Set(attempts.map((row) => row["publicId"]));
    return [
      ...ifAny(ends, sql.END_REQUESTS, arrayOf(ends.map(({ id }) => Number(id)))),
      ...ifAny(inserted, sql.INSERT_REQUESTS, String(this.#number.lease)),
      ...ifAny(attempts, sql.INSERT_ATTEMPTS, JSON.stringify([...attempted])),
    ];
  }

  #moveAccounts(group: GroupCharges): readonly Statement[] {
    const all = [...group.accounts].map(([id, { seq, firstSeq, balance, reserved }]) => {
      const isMoved = seq > firstSeq;
      const isChanged = isMoved || reserved !== this.#accounts.get(id)?.ownBefore;
      const { others } = this.#account(id);
      const row = {
        id,
        balance: String(balance),
        seq: String(seq),
        reserved: String(reserved + others),
      };
      return { row, isMoved, isChanged };
    });
    const moved = all.filter(({ isMoved }) => isMoved).map(({ row }) => row);
    const reserved = all.filter(({ isMoved, isChanged }) => isChanged && !isMoved);
    return [
      ...ifAny(moved, sql.MOVE_ACCOUNTS),
      ...ifAny(
        reserved.map(({ row }) => ({ id: row.id, reserved: row.reserved })),
        sql.RESERVE_ACCOUNTS,
      ),
    ];
  }

  #setBlocks(group: GroupCharges): readonly Statement[] {
    const ofAccounts = [...group.accounts]
      .filter(([id, { reserved }]) => reserved !== this.#accounts.get(id)?.ownBefore)
      .map(([id, { reserved }]) => ({ account_id: id, key_id: 0, amount: String(reserved) }));
    const blocks = [...ofAccounts, ...this.#chains.changedBlocks()];
    const lease = String(this.#number.lease);
    return [
      ...ifAny(
        blocks.filter(({ amount }) => amount !== "0"),
        sql.SET_BLOCKS,
        lease,
      ),
      ...ifAny(
        blocks.filter(({ amount }) => amount === "0"),
        sql.REMOVE_BLOCKS,
        lease,
      ),
    ];
  }

  #changeKeys(): readonly Statement[] {
    const changes = new Map<
      number,
      { id: number; charged?: string; at?: number; address?: string | null }
    >();
    for (const [id, charged] of this.#chains.charges)
      changes.set(id, { id, charged: String(charged) });
    for (const { keyId, at, address } of operationsOf(this.#batch, "touchKey"))
      changes.set(keyId, { ...changes.get(keyId), id: keyId, at, address });
    return ifAny([...changes.values()], sql.CHANGE_KEYS);
  }

  #addTotals(group: GroupCharges): readonly Statement[] {
    return ifAny([...group.totals].map(sql.totalRow), sql.ADD_TO_TOTALS);
  }

  /** An account whose target was not met because other replicas have its money. */
  #tellWanted(group: GroupCharges): readonly Statement[] {
    const wanted = this.#batch.reserves.filter(({ accountId, reserved }) => {
      const { others } = this.#account(accountId);
      return others > 0n && BigInt(reserved) > group.account(accountId).reserved;
    });
    const ids = new Set([...wanted.map(({ accountId }) => accountId), ...this.#chains.wanted]);
    return ifAny([...ids], sql.TELL_WANTED);
  }

  #replies(redeemed: readonly WriteResult[]): readonly WriteReply[] {
    const left = [...redeemed];
    return this.#batch.operations.map(({ kind }) => {
      return { ok: true, result: kind === "redeemVoucher" ? (left.shift() ?? {}) : {} };
    });
  }

  #effect(group: GroupCharges): BatchOutcome["effects"][number] {
    const accounts = [...group.accounts].map(([id, account]) => accountEffect(id, account));
    return { accounts, chains: this.#chains.effects() };
  }
}

function idsOf(rows: readonly Row[] | undefined): ReadonlySet<number> {
  return new Set((rows ?? []).map((row) => Number(row["id"])));
}

function operationsOf<Kind extends WireOperation["kind"]>(
  { operations }: WireBatch,
  kind: Kind,
): readonly Of<Kind>[] {
  return operations.filter((operation): operation is Of<Kind> => operation.kind === kind);
}

/** Without the late row of a request that ends in the same batch: only its end is written. */
function recordsOf(operations: readonly Of<"recordRequest">[]): readonly WireRecord[] {
  const records = operations.map(({ record }) => record);
  const ending = new Set(
    records
      .filter(({ row, mayHaveRow }) => mayHaveRow && row.status !== "running")
      .map(({ row }) => row.publicId),
  );
  return records.filter(({ row }) => row.status !== "running" || !ending.has(row.publicId));
}

function accountOf(row: Row, reserved: bigint): OwnAccount {
  const seq = row["ledger_seq"] as bigint;
  return {
    balance: row["balance"] as bigint,
    overdraft: row["overdraft"] as bigint,
    firstSeq: seq,
    seq,
    reserved,
    ownBefore: reserved,
    others: (row["reserved"] as bigint) - reserved,
  };
}

function rowOf(
  { row }: WireRecord,
  seq: bigint | null,
  balance: bigint | null,
): Record<string, unknown> {
  const ledgerSeq = seq === null ? null : String(seq);
  return { ...row, ledgerSeq, balanceAfter: balance === null ? null : String(balance) };
}

function attemptRows({ row, attempts }: WireRecord): readonly Record<string, unknown>[] {
  return attempts.map((attempt, index) => ({ publicId: row.publicId, n: index + 1, ...attempt }));
}

function ifAny(rows: readonly unknown[], text: string, ...more: string[]): readonly Statement[] {
  return rows.length === 0 ? [] : [statement(text, JSON.stringify(rows), ...more)];
}
