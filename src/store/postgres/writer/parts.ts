import {
  outcomeOfFailure,
  type BatchOutcome,
  type Refused,
  type WriteReply,
} from "../../writer/outcome.ts";
import type { WireBatch, WireOperation } from "../../writer/writerMessages.ts";

/** Some of the operations and reserves of a batch, which are tried apart from the others. */
export interface Part extends WireBatch {
  /** The places of the operations in the batch. */
  readonly places: readonly number[];
}

/** What became of a part. */
export interface PartOutcome {
  readonly part: Part;
  readonly outcome: BatchOutcome;
}

export const LOCKED: Refused = {
  ok: false,
  failure: "locked",
  message: "another transaction has rows of the account",
};

/** The account whose rows an operation needs. Undefined: it needs none. */
function accountOf(operation: WireOperation): number | undefined {
  switch (operation.kind) {
    case "recordRequest":
      return operation.record.row.accountId;
    case "recordOwners":
      return operation.objects[0]?.accountId;
    case "touchKey":
      return operation.accountId;
    case "redeemVoucher":
      return operation.redemption.accountId;
    case "reserve":
    case "probe":
    case "fold":
    case "notice":
      return undefined;
  }
}

export function wholeOf(batch: WireBatch): Part {
  return { ...batch, places: batch.operations.map((_, place) => place) };
}

/** The operations and reserves for which this holds, in their order. */
export function partOf(
  part: Part,
  isIn: (accountId: number | undefined, operation?: WireOperation) => boolean,
): Part {
  const kept = part.operations.flatMap((operation, index) =>
    isIn(accountOf(operation), operation) ? [index] : [],
  );
  return {
    ...part,
    operations: kept.flatMap((index) => part.operations[index] ?? []),
    places: kept.flatMap((index) => part.places[index] ?? []),
    reserves: part.reserves.filter(({ accountId }) => isIn(accountId)),
  };
}

export function isEmpty({ operations, reserves }: WireBatch): boolean {
  return operations.length === 0 && reserves.length === 0;
}

export function accountsOf({ operations, reserves }: WireBatch): ReadonlySet<number> {
  return new Set([
    ...operations.flatMap((operation) => accountOf(operation) ?? []),
    ...reserves.map(({ accountId }) => accountId),
  ]);
}

/** One part for each account, and one for what needs no account. */
export function partsByAccount(part: Part): readonly Part[] {
  const accounts = new Set([
    ...part.operations.map(accountOf),
    ...part.reserves.map(({ accountId }) => accountId),
  ]);
  return [...accounts].map((account) => partOf(part, (accountId) => accountId === account));
}

/** The outcome of a batch whose parts were tried one after the other. */
export function joined(operations: number, parts: readonly PartOutcome[]): BatchOutcome {
  const replies: (WriteReply | undefined)[] = Array.from({ length: operations }, () => undefined);
  const accountFailures = new Map<number, Refused>();
  for (const { part, outcome } of parts) {
    part.places.forEach((place, index) => {
      replies[place] = outcome.replies[index];
    });
    const { reserveFailure } = outcome;
    if (reserveFailure)
      for (const { accountId } of part.reserves) accountFailures.set(accountId, reserveFailure);
    for (const [accountId, failure] of outcome.accountFailures ?? [])
      accountFailures.set(accountId, failure);
  }
  return {
    replies: replies.map((reply) => reply ?? LOCKED),
    effects: parts.flatMap(({ outcome }) => outcome.effects),
    accountFailures,
  };
}

/** Nothing of the part is committed, because of a lock. */
export function lockedOutcome(part: Part): BatchOutcome {
  const accountFailures = new Map([...accountsOf(part)].map((accountId) => [accountId, LOCKED]));
  return { ...outcomeOfFailure(LOCKED, part.operations.length), accountFailures };
}
