import type { Endpoint, FinalStatus } from "../contract/account/requestStatus.ts";
import type { Usage } from "../contract/usage.ts";

/** The endpoint label of a metric. `other` is every path outside the API. */
export type MeasuredEndpoint =
  | Endpoint
  | "count_tokens"
  | "models"
  | "account"
  | "usage"
  | "requests"
  | "vouchers"
  | "other";

/** One attempt at a provider. `outcome` is the one of its attempt record. */
export interface EndedAttempt {
  readonly provider: string;
  readonly outcome: string;
  readonly durationMs: number;
}

/** A settled request. Amounts are nano-roubles. */
export interface EndedRequest {
  readonly endpoint: Endpoint;
  /** The model id from the config, never a client's text. */
  readonly model: string;
  readonly status: FinalStatus;
  readonly usage: Usage;
  readonly estimated: boolean;
  readonly charge: bigint;
  readonly writeOff: bigint;
  readonly attempts: readonly EndedAttempt[];
  readonly durationMs: number;
  /** Milliseconds from the start of the attempt that answered to its first content. Streams only. */
  readonly firstContentMs: number | undefined;
}

/** The circuit breaker of a route that was tried. */
export interface RouteState {
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  readonly state: "closed" | "half-open" | "open";
}

/** Values that are read at each scrape. */
export interface LiveFigures {
  /** Requests in flight, streams included. */
  readonly openRequests: number;
  readonly openStreams: number;
  /** Bytes of request bodies that are being read, or whose answer has not begun. */
  readonly bodyBytes: number;
  /** Size of the write-ahead log. */
  readonly walBytes: number;
  /** JSON answers that are read to their end although the client disconnected. */
  readonly disconnectedAnswers: number;
  /** Nano-roubles. */
  readonly held: bigint;
  /** Operations that wait for the writer or for its commit. */
  readonly queuedWrites: number;
  readonly isStoreFull: boolean;
  readonly isStoreLocked: boolean;
  readonly breakers: readonly RouteState[];
}

/**
 * Receives events from the gateway. No method throws. All labels come from the config or the code: no key, account, path
 * or text of a client.
 */
export interface Metrics {
  /** A request was settled. Called once for each. */
  requestEnded(request: EndedRequest): void;
  /** A request was answered with an error before money was held. */
  requestRefused(endpoint: MeasuredEndpoint, status: number): void;
  /** A provider sent a finish reason that the convention does not have. `model` is the id from the config. */
  unknownFinishReason(model: string): void;
  /** The retry budget refused a third attempt. */
  retryRefused(): void;
  /** The writer committed a batch. */
  committed(tookMs: number): void;
  /** Spans could not be sent to the trace collector. */
  spansLost(count: number): void;
  /** A reload of the config succeeded or was refused. */
  reloaded(isAccepted: boolean): void;
  /** Sets the function that reads the live figures at each scrape. */
  watch(figures: () => LiveFigures): void;
}

/** Metrics that are switched off. */
export const silentMetrics: Metrics = {
  requestEnded() {},
  requestRefused() {},
  unknownFinishReason() {},
  retryRefused() {},
  committed() {},
  spansLost() {},
  reloaded() {},
  watch() {},
};

export interface ReadableMetrics extends Metrics {
  /** The media type of the text that `read` returns. */
  readonly contentType: string;
  /** All metrics in Prometheus' text format. */
  read(): Promise<string>;
}
