import type { Endpoint, FinalStatus } from "../contract/account/requestStatus.ts";
import type { Usage } from "../contract/usage.ts";

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
  /** What the prompt cache saved, may be negative; null: not known. */
  readonly cacheSaved: bigint | null;
  readonly operatorSaved: bigint | null;
  /** Undefined if none answered. */
  readonly provider: string | undefined;
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

/** A route, and what it served that costs more than the price is for. */
export interface RouteServices {
  readonly provider: string;
  /** The provider's name for the model. */
  readonly model: string;
  readonly services: readonly string[];
}

/** A gateway that is one of several on a PostgreSQL server, since its start. */
export interface ReplicaFigures {
  /** The number of its lease; undefined while it has none. */
  readonly id: number | undefined;
  /** The time since the last successful heartbeat. */
  readonly leaseAgeMs: number;
  /** The server's clock less that of this machine, by the last heartbeat. */
  readonly clockSkewMs: number | undefined;
  readonly liveReplicas: number;
  /** The accounts of which it has reserved money, and the sum in nano-roubles. */
  readonly blocks: number;
  readonly reserved: bigint;
  readonly transactions: number;
  readonly roundTrips: number;
  /** Commits whose reply was lost and whose outcome was looked up. */
  readonly lookUps: number;
  /** Transactions that were run again because another one was in the way. */
  readonly conflicts: number;
  /** Accounts that another transaction had locked at their last try. */
  readonly lockedAccounts: number;
}

/** What a database shows at each scrape. */
export interface DatabaseFigures {
  /** Size of the write-ahead log of a SQLite file. */
  readonly walBytes?: number;
  /** Bytes that the gateway may still write to the disk of a SQLite file. Undefined if the disk cannot be asked. */
  readonly freeBytes?: number | undefined;
  readonly replica?: ReplicaFigures;
}

/** The server that counts limits for all replicas. */
export interface SharedLimitsFigures {
  /** Whether it is asked now. Otherwise this replica allows its share. */
  readonly isUsed: boolean;
  /** Requests since the start that this replica counted by itself, because the server could not be asked in time. */
  readonly byShare: number;
}

/** Conditions that a person should know. */
export type NoticeCause =
  | "account_low"
  | "key_expires"
  | "audit_failed"
  | "provider_refused"
  | "organization_refused"
  | "provider_without_key"
  | "service_expensive"
  | "store_blocked";

/** Values that are read at each scrape. */
export interface LiveFigures extends DatabaseFigures {
  /** Undefined without a limits server. */
  readonly sharedLimits?: SharedLimitsFigures | undefined;
  /** When the certificate of the public listener expires, in Unix milliseconds. Undefined without TLS. */
  readonly certificateExpiresAt?: number | undefined;
  /** Requests in flight, streams included. */
  readonly openRequests: number;
  readonly openStreams: number;
  /** Bytes of request bodies that are being read, or whose answer has not begun. */
  readonly bodyBytes: number;
  /** Answers that are read on although the client disconnected. */
  readonly disconnectedAnswers: number;
  /** Nano-roubles. */
  readonly held: bigint;
  /** Operations that wait for the writer or for its commit. */
  readonly queuedWrites: number;
  /** Why the database cannot be written. */
  readonly blockedBy: "full" | "busy" | "unreachable" | undefined;
  readonly breakers: readonly RouteState[];
  /** How many conditions of each kind hold. Those of accounts and keys are of the last read of the database, at most a minute ago. */
  readonly notices?: Readonly<Record<NoticeCause, number>>;
}

/**
 * Receives events from the gateway. No method throws. All labels come from the config or the code: no key, account, path
 * or text of a client.
 */
export interface Metrics {
  /** A request was settled. Called once for each. */
  requestEnded(request: EndedRequest): void;
  /** A request was answered with an error before money was held. `endpoint` is that of a declared route, or "other". */
  requestRefused(endpoint: string, status: number): void;
  /** A provider sent a finish reason that the convention does not have. `model` is the id from the config. */
  unknownFinishReason(model: string): void;
  /** An answer was served with something that costs more than the price is for. `model` is the provider's name for it. */
  unpricedServed(served: {
    readonly provider: string;
    readonly model: string;
    readonly service: string;
  }): void;
  /** The gateway asked a route itself. `model` is the provider's name for it. */
  probed(probe: {
    readonly provider: string;
    readonly model: string;
    readonly outcome: string;
  }): void;
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
  unpricedServed() {},
  probed() {},
  retryRefused() {},
  committed() {},
  spansLost() {},
  reloaded() {},
  watch() {},
};

/** The values of all metrics, which another process can add up with its own. */
export type MetricValues = readonly object[];

export interface ReadableMetrics extends Metrics {
  /** The media type of the text that `read` returns. */
  readonly contentType: string;
  values(): Promise<MetricValues>;
  /** All metrics in Prometheus' text format. */
  read(): Promise<string>;
}
