import type { WriteOperation, WriteResult } from "./operations.ts";
import type { OwnedObject } from "./owners.ts";

/**
 * Operations on their way to the writer, as one text: a structured clone of the same objects costs ten
 * times as much on either side. JSON has no bigint, so amounts travel as digits.
 */
export function encodeOperations(operations: readonly WriteOperation[]): string {
  return JSON.stringify(operations.map(toWire));
}

export function decodeOperations(text: string): WriteOperation[] {
  return (JSON.parse(text) as WireOperation[]).map(fromWire);
}

/** What came of an operation. */
export type WireResult = InDigits<WriteResult, "charge" | "writeOff">;

export function resultToWire(result: WriteResult): WireResult {
  return { ...result, charge: String(result.charge), writeOff: String(result.writeOff) };
}

export function resultFromWire(result: WireResult): WriteResult {
  return { ...result, charge: BigInt(result.charge), writeOff: BigInt(result.writeOff) };
}

type Operation<Kind extends WriteOperation["kind"]> = Extract<WriteOperation, { kind: Kind }>;
type InDigits<Type, Amount extends keyof Type> = Omit<Type, Amount> & {
  [Name in Amount]: Type[Name] extends bigint ? string : string | null;
};

type WireOperation =
  | {
      kind: "open";
      request: InDigits<
        Operation<"open">["request"],
        "priceInput" | "priceCachedInput" | "priceCacheWrite" | "priceOutput" | "hold" | "promised"
      >;
    }
  | { kind: "end"; end: InDigits<Operation<"end">["end"], "cost" | "operatorCost"> }
  | {
      kind: "own";
      objects: readonly (Omit<OwnedObject, "hash"> & { hash: string })[];
      at: number;
    }
  | Operation<"touch">
  | Operation<"probe">
  | Operation<"fold">;

function toWire(operation: WriteOperation): WireOperation {
  switch (operation.kind) {
    case "open": {
      const { request } = operation;
      return {
        kind: "open",
        request: {
          ...request,
          priceInput: String(request.priceInput),
          priceCachedInput: String(request.priceCachedInput),
          priceCacheWrite: String(request.priceCacheWrite),
          priceOutput: String(request.priceOutput),
          hold: String(request.hold),
          promised: String(request.promised),
        },
      };
    }
    case "end": {
      const { end } = operation;
      const operatorCost = end.operatorCost === null ? null : String(end.operatorCost);
      return { kind: "end", end: { ...end, cost: String(end.cost), operatorCost } };
    }
    case "own": {
      const objects = operation.objects.map((object) => {
        return { ...object, hash: object.hash.toHex() };
      });
      return { kind: "own", objects, at: operation.at };
    }
    case "touch":
    case "probe":
    case "fold":
      return operation;
  }
}

function fromWire(operation: WireOperation): WriteOperation {
  switch (operation.kind) {
    case "open": {
      const { request } = operation;
      return {
        kind: "open",
        request: {
          ...request,
          priceInput: BigInt(request.priceInput),
          priceCachedInput: BigInt(request.priceCachedInput),
          priceCacheWrite: BigInt(request.priceCacheWrite),
          priceOutput: BigInt(request.priceOutput),
          hold: BigInt(request.hold),
          promised: BigInt(request.promised),
        },
      };
    }
    case "end": {
      const { end } = operation;
      const operatorCost = end.operatorCost === null ? null : BigInt(end.operatorCost);
      return { kind: "end", end: { ...end, cost: BigInt(end.cost), operatorCost } };
    }
    case "own": {
      const objects = operation.objects.map((object) => {
        return { ...object, hash: Uint8Array.fromHex(object.hash) };
      });
      return { kind: "own", objects, at: operation.at };
    }
    case "touch":
    case "probe":
    case "fold":
      return operation;
  }
}
