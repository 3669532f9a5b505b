/** One request, whole: what is written to the socket. */
export interface Call {
  readonly port: number;
  readonly request: string;
}

/** What the load generator can be asked to do; it answers each order once. */
export type Order =
  /** Keeps `atOnce` requests under way, each on a connection of its own. Answered when all were sent. */
  | ({ readonly kind: "loop"; readonly atOnce: number } & Call)
  /** Sends so many requests at a fixed rate, whether those before were answered or not. */
  | ({ readonly kind: "rate"; readonly perSecond: number; readonly count: number } & Call)
  /** Reads one stream to its end, at this pace on average. */
  | ({ readonly kind: "slow"; readonly bytesPerSecond: number } & Call)
  /** Tells what was counted since the start or the last stop. */
  | { readonly kind: "sample" }
  /** Tells the same, closes all connections, and counts from 0 again. */
  | { readonly kind: "stop" };

/** What the load generator has seen since it was started or stopped. */
export interface Counters {
  readonly answers: number;
  readonly events: number;
  /** Network reads that held events. */
  readonly eventReads: number;
  readonly bytes: number;
  /** Streams of which an event has come. */
  readonly begun: number;
  readonly failures: number;
  readonly firstFailure: string;
}

/** What a run at a fixed rate has found; one number a request that was answered. */
export interface RateResult {
  readonly firstByteMs: readonly number[];
  readonly totalMs: readonly number[];
}

/** The answer to any order. */
export interface Report {
  readonly counters: Counters;
  readonly rate?: RateResult;
}
