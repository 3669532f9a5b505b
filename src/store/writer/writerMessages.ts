import type { NoticeChange } from "../tables/notices.ts";
import type { OwnedObject } from "../tables/objectOwners.ts";
import { recordToWire, type RequestRecord, type WireRecord } from "./requestRecord.ts";
import type { ReserveTarget } from "./effects.ts";
import type { Redemption, RedemptionOutcome } from "./redemption.ts";

/** One write. The writer performs them in the order of the calls. */
export type WriteOperation =
  /** Writes the row of a request: of one that runs, or of one that has ended, with its charge. */
  | { kind: "recordRequest"; record: RequestRecord }
  | { kind: "recordOwners"; objects: readonly OwnedObject[]; at: number }
  /** The use of a key. Without an address it removes those of earlier uses. */
  | { kind: "touchKey"; accountId: number; keyId: number; at: number; address: string | null }
  /** Commits the reserves of accounts. */
  | { kind: "reserve" }
  /** Changes nothing, but needs disk space like a change. */
  | { kind: "probe" }
  /** Folds one batch of ended requests that were admitted before this time. */
  | { kind: "fold"; before: number }
  | { kind: "redeemVoucher"; redemption: Redemption }
  /** On SQLite. On PostgreSQL the store does it: notices have nothing to do with the lease. */
  | { kind: "notice"; change: NoticeChange };

/** The result of an operation. */
export interface WriteResult {
  /** The number of requests that a fold removed. */
  folded?: number;
  redeemed?: RedemptionOutcome;
  /** Whether a notice was claimed. */
  claimed?: boolean;
}

/** An operation in JSON. A structured clone of the objects costs ten times as much on each side. */
export type WireOperation =
  | { kind: "recordRequest"; record: WireRecord }
  | {
      kind: "recordOwners";
      objects: readonly (Omit<OwnedObject, "hash"> & { hash: string })[];
      at: number;
    }
  | Extract<
      WriteOperation,
      { kind: "reserve" | "touchKey" | "probe" | "fold" | "redeemVoucher" | "notice" }
    >;

/** The operations of one transaction, and the reserves of accounts after it. */
export interface WireBatch {
  readonly operations: readonly WireOperation[];
  readonly reserves: readonly ReserveTarget[];
  /** No reserve becomes lower. */
  readonly onlyRaise?: boolean;
}

export function encodeBatch(
  operations: readonly WriteOperation[],
  reserves: readonly ReserveTarget[],
): string {
  const batch: WireBatch = { operations: operations.map(toWire), reserves };
  return JSON.stringify(batch);
}

export function decodeBatch(text: string): WireBatch {
  return JSON.parse(text) as WireBatch;
}

export function toWire(operation: WriteOperation): WireOperation {
  switch (operation.kind) {
    case "recordRequest":
      return { kind: "recordRequest", record: recordToWire(operation.record) };
    case "recordOwners": {
      const objects = operation.objects.map((object) => {
        return { ...object, hash: object.hash.toHex() };
      });
      return { kind: "recordOwners", objects, at: operation.at };
    }
    case "reserve":
    case "touchKey":
    case "probe":
    case "fold":
    case "redeemVoucher":
    case "notice":
      return operation;
  }
}
