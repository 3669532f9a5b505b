/** The load that bench/upstreamClients.ts, its clients and its provider agree on. */
export const EVENT_BYTES = 250;
export const EVENTS_PER_STREAM = 50;
/** For all streams together: few enough that no client is saturated, which would merge events. */
export const EVENTS_PER_SECOND = 10_000;
export const REQUEST_BODY = JSON.stringify({ model: "m", text: "x".repeat(2000) });

export type VariantName =
  | "Bun.connect client"
  | "fetch"
  | "fetch, limit lifted"
  | "undici Pool"
  | "node:http Agent";

/** One HTTP client under test, bound to one provider. */
export interface LoadClient {
  /** A whole exchange. Resolves with the bytes of the body. */
  json(): Promise<number>;
  /** A stream read to its end, or until the process ends. Resolves with the number of reads. */
  stream(path: string, onFirst: () => void): Promise<number>;
}
