import { isoTime } from "../lib/time.ts";
import { formatRoubles } from "../lib/money.ts";
import { tokenCounts, type Usage } from "./usage.ts";

/** By which of the API's endpoints a request came. */
export const endpoints = ["chat", "responses"] as const;
export type Endpoint = (typeof endpoints)[number];

/** `cancelled`: the client went away; `interrupted`: the gateway crashed. */
export const requestStatuses = ["running", "done", "failed", "cancelled", "interrupted"] as const;
export type RequestStatus = (typeof requestStatuses)[number];

/** How a request can end while the gateway lives. */
export type FinalStatus = Exclude<RequestStatus, "running" | "interrupted">;

/** A request as its owner and the operator see it; `charge` is nano-roubles, `key` the key's id. */
interface ShownRequest extends Usage {
  readonly id: string;
  readonly at: number;
  readonly key: string;
  readonly endpoint: Endpoint;
  readonly model: string;
  readonly stream: boolean;
  readonly status: RequestStatus;
  readonly estimated: boolean;
  readonly charge: bigint;
  readonly durationMs: number | null;
  readonly firstByteMs: number | null;
}

/** With the prices that it was admitted at, for one token, and what was given back of its charge so far: nano-roubles. */
interface ShownReceipt extends ShownRequest {
  readonly priceInput: bigint;
  readonly priceOutput: bigint;
  readonly priceCachedInput: bigint;
  readonly priceCacheWrite: bigint;
  readonly refunded: bigint;
}

/** What became of a request; nothing in it says which provider answered, or what that cost the operator. */
export function requestForm(request: ShownRequest) {
  return {
    id: request.id,
    at: isoTime(request.at),
    key_id: request.key,
    endpoint: request.endpoint,
    model: request.model,
    stream: request.stream,
    status: request.status,
    ...tokenCounts(request),
    estimated: request.estimated,
    cost_rub: formatRoubles(request.charge),
    duration_ms: request.durationMs,
    first_byte_ms: request.firstByteMs,
  };
}

/** The same with its prices, and what was given back of its cost. */
export function receiptForm(request: ShownReceipt) {
  return {
    ...requestForm(request),
    refunded_rub: formatRoubles(request.refunded),
    rub_input_per_1m: Number(request.priceInput),
    rub_output_per_1m: Number(request.priceOutput),
    rub_cached_input_per_1m: Number(request.priceCachedInput),
    rub_cache_write_per_1m: Number(request.priceCacheWrite),
  };
}
