import type { OwnedObject } from "../tables/objectOwners.ts";
import type { WriteOperation } from "./operations.ts";
import { recordToWire, type WireRecord } from "./requestRecord.ts";
import type { ReserveTarget } from "./requestGroup.ts";

/** An operation in JSON. A structured clone of the objects costs ten times as much on each side. */
export type WireOperation =
  | { kind: "recordRequest"; record: WireRecord }
  | {
      kind: "recordOwners";
      objects: readonly (Omit<OwnedObject, "hash"> & { hash: string })[];
      at: number;
    }
  | Extract<WriteOperation, { kind: "reserve" | "touchKey" | "probe" | "fold" }>;

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

function toWire(operation: WriteOperation): WireOperation {
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
      return operation;
  }
}
