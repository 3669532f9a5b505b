import { type RequestRecord, type Writer } from "../../../src/store/store.ts";

/** A request that has ended, as the gateway records it. Each token and each web search costs 25 nano-roubles. */
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
    priceInput: 25n,
    priceCachedInput: 25n,
    priceCacheWrite: 25n,
    priceCacheWrite1h: 25n,
    priceOutput: 25n,
    priceWebSearch: 25n,
    hold: 1000n,
    status: "done",
    mayHaveRow: false,
    provider: "local",
    charge: 0n,
    writeOff: 0n,
    promptTokens: 0,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    cacheWrite1hTokens: 0,
    completionTokens: 0,
    webSearches: 0,
    estimated: false,
    operatorCost: null,
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
