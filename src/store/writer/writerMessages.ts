import type { OpenedRequest, WriteOperation, WriteResult } from "./operations.ts";
import type { OwnedObject } from "../tables/objectOwners.ts";
import type { RequestSettlement } from "./settle.ts";

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
export type WireResult = InDigits<WriteResult>;

export function resultToWire(result: WriteResult): WireResult {
  return inDigits(result, AMOUNTS.result);
}

export function resultFromWire(result: WireResult): WriteResult {
  return fromDigits<WriteResult>(result, AMOUNTS.result);
}

/** The names of the amounts among the fields of a type. */
type AmountOf<Type> = {
  [Name in keyof Type]-?: bigint extends Type[Name] ? Name : never;
}[keyof Type];

type InDigits<Type> = Omit<Type, AmountOf<Type>> & {
  [Name in AmountOf<Type>]: null extends Type[Name] ? string | null : string;
};

/** One that is missing here is refused on its way, for JSON has no bigint. */
const AMOUNTS: {
  readonly open: readonly AmountOf<OpenedRequest>[];
  readonly end: readonly AmountOf<RequestSettlement>[];
  readonly result: readonly AmountOf<WriteResult>[];
} = {
  open: ["priceInput", "priceCachedInput", "priceCacheWrite", "priceOutput", "hold", "promised"],
  end: ["cost", "operatorCost"],
  result: ["charge", "writeOff"],
};

type WireOperation =
  | { kind: "openRequest"; request: InDigits<OpenedRequest> }
  | { kind: "settleRequest"; settlement: InDigits<RequestSettlement> }
  | {
      kind: "recordOwners";
      objects: readonly (Omit<OwnedObject, "hash"> & { hash: string })[];
      at: number;
    }
  | Extract<WriteOperation, { kind: "touchKey" | "probe" | "fold" }>;

function toWire(operation: WriteOperation): WireOperation {
  switch (operation.kind) {
    case "openRequest":
      return { kind: "openRequest", request: inDigits(operation.request, AMOUNTS.open) };
    case "settleRequest":
      return { kind: "settleRequest", settlement: inDigits(operation.settlement, AMOUNTS.end) };
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
        request: fromDigits<OpenedRequest>(operation.request, AMOUNTS.open),
      };
    case "settleRequest":
      return {
        kind: "settleRequest",
        settlement: fromDigits<RequestSettlement>(operation.settlement, AMOUNTS.end),
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

function inDigits<Type extends object>(
  record: Type,
  amounts: readonly AmountOf<Type>[],
): InDigits<Type> {
  const copy: { [Name in keyof Type]: Type[Name] | string } = { ...record };
  for (const name of amounts) if (copy[name] !== null) copy[name] = String(copy[name]);
  return copy as unknown as InDigits<Type>;
}

function fromDigits<Type extends object>(
  record: InDigits<Type>,
  amounts: readonly AmountOf<Type>[],
): Type {
  const copy: Record<PropertyKey, unknown> = { ...record };
  for (const name of amounts) if (copy[name] !== null) copy[name] = BigInt(String(copy[name]));
  return copy as Type;
}
