import type { Endpoint, FinalStatus } from "../contract/requestForm.ts";
import type { Usage } from "../contract/usage.ts";

/** What a request was for; `other` is every path that is none of the API's. */
export type MeasuredEndpoint = Endpoint | "models" | "account" | "usage" | "requests" | "other";

/** One attempt at a provider; `outcome` is the word of its record. */
export interface EndedAttempt {
  readonly provider: string;
  readonly outcome: string;
  readonly durationMs: number;
}

/** A request that was held and is over: what its record in the books says. Amounts are nano-roubles. */
export interface EndedRequest {
  readonly endpoint: Endpoint;
  /** The config's id of the model, never a client's own word. */
  readonly model: string;
  readonly status: FinalStatus;
  readonly usage: Usage;
  readonly estimated: boolean;
  readonly charge: bigint;
  readonly writeOff: bigint;
  readonly attempts: readonly EndedAttempt[];
  readonly durationMs: number;
  /** From the start of the attempt that answered; only of a stream whose first content came. */
  readonly firstContentMs: number | undefined;
}

/** How the circuit breaker sees a route that was tried. */
export interface RouteState {
  readonly provider: string;
  /** The provider's own name for the model. */
  readonly model: string;
  readonly state: "closed" | "half-open" | "open";
}

/** Figures of the moment. */
export interface LiveFigures {
  /** Requests that were let in and are not over, streams among them. */
  readonly openRequests: number;
  readonly openStreams: number;
  /** Of requests' bodies that are being read, or whose answer has not begun. */
  readonly bodyBytes: number;
  /** Of the store's write-ahead log. */
  readonly logBytes: number;
  /** JSON answers that are read to their end though their client left. */
  readonly disconnectedAnswers: number;
  /** Nano-roubles. */
  readonly held: bigint;
  /** Operations that wait for the writer, or for its commit. */
  readonly queuedWrites: number;
  readonly isStoreFull: boolean;
  readonly isStoreLocked: boolean;
  readonly breakers: readonly RouteState[];
}

/**
 * What the gateway tells of itself while it works. Nothing here ever throws, and every word given is one
 * of the config's or of the code's: no key, account, path or text of a client.
 */
export interface Metrics {
  /** A request that was held is over; told once for each. */
  requestEnded(request: EndedRequest): void;
  /** A request was answered with an error before anything was held for it. */
  requestRefused(endpoint: MeasuredEndpoint, status: number): void;
  /** A provider gave a finish reason that is none of the convention's; `model` is the config's id. */
  unknownFinishReason(model: string): void;
  /** A third attempt found no place in the retry budget. */
  retryRefused(): void;
  /** The writer committed a batch. */
  committed(tookMs: number): void;
  /** A reload of the config was taken, or refused. */
  reloaded(isTaken: boolean): void;
  /** Where the figures of the moment are to be had; they are asked for when somebody looks. */
  watch(figures: () => LiveFigures): void;
}

/** For a gateway that nobody measures. */
export const silentMetrics: Metrics = {
  requestEnded() {},
  requestRefused() {},
  unknownFinishReason() {},
  retryRefused() {},
  committed() {},
  reloaded() {},
  watch() {},
};

/** Metrics that can be read. */
export interface ReadableMetrics extends Metrics {
  /** The media type of what `read` gives. */
  readonly contentType: string;
  /** Everything in the text form of Prometheus. */
  read(): Promise<string>;
}
