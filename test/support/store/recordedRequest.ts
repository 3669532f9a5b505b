import { ofEachPrice, type Price } from "../../../src/contract/figures.ts";
import { withHighest, type PriceList } from "../../../src/contract/priceList.ts";
import { noUsage } from "../../../src/contract/usage.ts";
import type { RequestRecord, Writer } from "../../../src/store/store.ts";

/** A price of nothing. */
export const freePrice: Price = ofEachPrice(() => 0n);

/** Each token, and each of the rest, costs 25 nano-roubles if nothing else is said. */
export function priceOf(prices: Partial<Price>): Price {
  return { ...ofEachPrice(() => 25n), ...prices };
}

/** A list with one price. */
export function onePrice(price: Price): PriceList {
  return { standard: withHighest([{ fromPromptTokens: 0, price, note: null }]), services: {} };
}

/** A request that has ended, as the gateway records it. */
export function requestRecord(changes: Partial<RequestRecord> = {}): RequestRecord {
  return {
    publicId: "req_1",
    at: 0,
    accountId: 1,
    keyId: 1,
    firstKeyId: 1,
    endpoint: "chat",
    model: "small",
    stream: false,
    price: priceOf({}),
    pricing: null,
    hold: 1000n,
    status: "done",
    mayHaveRow: false,
    provider: "local",
    charge: 0n,
    writeOff: 0n,
    ...noUsage,
    estimated: false,
    operatorCost: null,
    cacheSaved: null,
    operatorSaved: null,
    attempts: [],
    durationMs: 5,
    firstByteMs: null,
    ...changes,
  };
}

/** The row of a request that runs. */
export function runningRecord(changes: Partial<RequestRecord> = {}): RequestRecord {
  return requestRecord({ status: "running", provider: null, durationMs: null, ...changes });
}

/**
 * Records a request as the gateway does: the account reserves the charge first, and has nothing reserved for it
 * afterwards. Rejects with WriteError if the account cannot pay it.
 */
export async function recordRequest(writer: Writer, record: RequestRecord): Promise<void> {
  await reserve(writer, record.accountId, record.charge);
  await writer.write({ kind: "recordRequest", record });
}

/** Commits the reserve of an account, or as much of it as the account can pay. */
export async function reserve(writer: Writer, accountId: number, amount: bigint): Promise<void> {
  const reserves = [{ accountId, reserved: String(amount) }];
  writer.planner = { planBatch: () => reserves.splice(0), batchEnded() {} };
  await writer.write({ kind: "reserve" });
}
