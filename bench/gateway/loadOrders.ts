/** Where requests go, and the requests, whole: what is written to the socket. They are sent in turn. */
export interface Call {
  readonly port: number;
  readonly requests: readonly string[];
}

/** The orders of the load generator. It answers each order once. */
export type Order =
  /**
   * Keeps `atOnce` requests in flight, each on its own connection. Answered when all are sent. A second loop runs beside
   * the first one. The samples have the times of a timed loop: of its answers, and of the events of `timed` streams.
   */
  | ({ readonly kind: "loop"; readonly atOnce: number; readonly isTimed?: boolean } & Call)
  /**
   * Sends this number of requests at a fixed rate, whether earlier ones are answered or not. With `atOnce` it sends
   * this number of groups; the requests of a group leave together. With `isNew` each request opens a connection of its own,
   * and its time begins before.
   */
  | ({
      readonly kind: "rate";
      readonly perSecond: number;
      readonly count: number;
      readonly atOnce?: number;
      readonly isNew?: boolean;
    } & Call)
  /** Reads one stream to its end, at this pace on average. */
  | ({ readonly kind: "slow"; readonly bytesPerSecond: number } & Call)
  /** Returns the counters since the start or the last stop, and the times since the last sample. */
  | { readonly kind: "sample" }
  /** Returns the counters, closes all connections, and counts from 0 again. */
  | { readonly kind: "stop" };

/** The counters of the load generator since the start or the last stop. */
export interface Counters {
  readonly answers: number;
  readonly events: number;
  /** Network reads that held events. */
  readonly eventReads: number;
  readonly bytes: number;
  /** Streams from which an event has arrived. */
  readonly begun: number;
  readonly failures: number;
  readonly firstFailure: string;
}

/** The result of a run at a fixed rate: one number for each answered request. */
export interface RateResult {
  readonly firstByteMs: readonly number[];
  readonly totalMs: readonly number[];
}

/** The answer to any order. */
export interface Report {
  readonly counters: Counters;
  readonly rate?: RateResult;
  /** For each answer of a timed loop the time from its request to its last byte, in milliseconds. */
  readonly loopMs?: readonly number[];
  /** For each event of a `timed` stream the time from the provider to here, in milliseconds. */
  readonly eventMs?: readonly number[];
}
