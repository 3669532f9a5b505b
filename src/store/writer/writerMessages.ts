import type { OpenedRequest, WriteOperation, WriteResult } from "./operations.ts";
import type { OwnedObject } from "../tables/objectOwners.ts";
import type { RequestSettlement } from "./settle.ts";

/**
 * Operations as JSON: a structured clone of the objects costs ten times as much on each side. Amounts are decimal
 * strings, because JSON has no bigint.
 */
export function encodeOperations(operations: readonly WriteOperation[]): string {
  return JSON.stringify(operations.map(toWire));
}

export function decodeOperations(text: string): WriteOperation[] {
  return (JSON.parse(text) as WireOperation[]).map(fromWire);
}

export type WireResult = WithStrings<WriteResult>;

export function resultToWire(result: WriteResult): WireResult {
  return amountsToStrings(result, AMOUNTS.result);
}

export function resultFromWire(result: WireResult): WriteResult {
  return amountsFromStrings<WriteResult>(result, AMOUNTS.result);
}

/** The bigint fields of a type. */
type AmountOf<Type> = {
  [Name in keyof Type]-?: bigint extends Type[Name] ? Name : never;
}[keyof Type];

type WithStrings<Type> = Omit<Type, AmountOf<Type>> & {
  [Name in AmountOf<Type>]: null extends Type[Name] ? string | null : string;
};

/** `JSON.stringify` throws for a bigint field that is missing here. */
const AMOUNTS: {
  readonly request: readonly AmountOf<OpenedRequest>[];
  readonly settlement: readonly AmountOf<RequestSettlement>[];
  readonly result: readonly AmountOf<WriteResult>[];
} = {
  request: [
    "priceInput",
    "priceCachedInput",
    "priceCacheWrite",
    "priceOutput",
    "hold",
    "heldTotal",
  ],
  settlement: ["cost", "operatorCost"],
  result: ["charge", "writeOff"],
};

type WireOperation =
  | { kind: "openRequest"; request: WithStrings<OpenedRequest> }
  | { kind: "settleRequest"; settlement: WithStrings<RequestSettlement> }
  | {
      kind: "recordOwners";
      objects: readonly (Omit<OwnedObject, "hash"> & { hash: string })[];
      at: number;
    }
  | Extract<WriteOperation, { kind: "touchKey" | "probe" | "fold" }>;

function toWire(operation: WriteOperation): WireOperation {
  switch (operation.kind) {
    case "openRequest":
      return { kind: "openRequest", request: amountsToStrings(operation.request, AMOUNTS.request) };
    case "settleRequest":
      return {
        kind: "settleRequest",
        settlement: amountsToStrings(operation.settlement, AMOUNTS.settlement),
      };
    case "recordOwners": {
      const objects = operation.objects.map((object) => {
        return { ...object, hash: object.hash.toHex() };
      });
      return { kind: "recordOwners", objects, at: operation.at };
    }
    case "touchKey":
    case "probe":
    case "fold":
      return operation;
  }
}

function fromWire(operation: WireOperation): WriteOperation {
  switch (operation.kind) {
    case "openRequest":
      return {
        kind: "openRequest",
        request: amountsFromStrings<OpenedRequest>(operation.request, AMOUNTS.request),
      };
    case "settleRequest":
      return {
        kind: "settleRequest",
        settlement: amountsFromStrings<RequestSettlement>(operation.settlement, AMOUNTS.settlement),
      };
    case "recordOwners": {
      const objects = operation.objects.map((object) => {
        return { ...object, hash: Uint8Array.fromHex(object.hash) };
      });
      return { kind: "recordOwners", objects, at: operation.at };
    }
    case "touchKey":
    case "probe":
    case "fold":
      return operation;
  }
}

function amountsToStrings<Type extends object>(
  record: Type,
  amounts: readonly AmountOf<Type>[],
): WithStrings<Type> {
  const copy: { [Name in keyof Type]: Type[Name] | string } = { ...record };
  for (const name of amounts) if (copy[name] !== null) copy[name] = String(copy[name]);
  return copy as unknown as WithStrings<Type>;
}

function amountsFromStrings<Type extends object>(
  record: WithStrings<Type>,
  amounts: readonly AmountOf<Type>[],
): Type {
  const copy: Record<PropertyKey, unknown> = { ...record };
  for (const name of amounts) if (copy[name] !== null) copy[name] = BigInt(String(copy[name]));
  return copy as Type;
}
