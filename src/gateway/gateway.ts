/**
 * Of closures. In Bun 1.4.5 all closures of a scope share what any of them captures: one that lives long keeps that in
 * memory, whether it refers to it itself or not. A body may have many megabytes, and a stream may stay open for minutes.
 * So whatever lives as long as a stream is made by a function of its own, none of whose closures captures the request or
 * the journey. Where the code is shaped by this it says so; test/e2e/promptMemory.test.ts watches it.
 */

import type { Holds } from "../billing/holds.ts";
import type { OpenMeters } from "../billing/meter.ts";
import type { Caller } from "../auth/apiKey.ts";
import type { Config } from "../config/schema.ts";
import type { Clock } from "../lib/clock.ts";
import type { JsonObjectText } from "../lib/json.ts";
import type { Random } from "../lib/random.ts";
import type { RateLimitPermit } from "../limits/rateLimits.ts";
import type { UpstreamExchange } from "../providers/upstream.ts";
import type { RouteHealth } from "../routing/routeHealth.ts";
import type { RetryBudget } from "../routing/dispatch.ts";
import type { Blocked, Store, Writer } from "../store/store.ts";
import type { Log, LogFields } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Catalog } from "./catalog.ts";

/** A config, and what it offers. */
export interface ConfigSnapshot {
  readonly config: Config;
  /** When the config came into force, in milliseconds since 1970. */
  readonly loadedAt: number;
  readonly catalog: Catalog;
}

/** What the path of a request needs of the house. */
export interface Gateway {
  /** For the requests that come now; a reload puts another in its place. */
  readonly current: ConfigSnapshot;
  readonly store: Store;
  readonly writer: Writer;
  readonly holds: Holds;
  readonly openMeters: OpenMeters;
  readonly retryBudget: RetryBudget;
  readonly health: RouteHealth;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  /** What is under way now, and whether the gateway has begun to cut it off. */
  readonly inFlight: InFlightState;
}

/** What is under way now. */
export interface InFlightState {
  /** The exchanges with providers that are under way, so that a shutdown can end them. */
  readonly exchanges: Set<UpstreamExchange>;
  /** JSON answers that are read to their end though nobody waits for them any more. */
  disconnectedCount: number;
  isAborting: boolean;
}

/** One request that passed authentication and its rate limits. */
export interface RequestContext {
  readonly requestId: string;
  /** The one that the request met, to its end: a reload amid it changes nothing for it. */
  readonly snapshot: ConfigSnapshot;
  readonly caller: Caller;
  readonly permit: RateLimitPermit;
  /** Fires when the client goes away. */
  readonly signal: AbortSignal;
  /** Adds to the request's log line. */
  addLogFields(fields: LogFields): void;
  /** Says in the log line why the request failed, after its answer began. */
  logFailure(error: unknown): void;
  /** A streamed answer is over: its place is free again. A JSON answer is over when it is returned. */
  onStreamEnd(): void;
}

/** A checked request with the client's own text. */
export interface CheckedBody<Request> {
  readonly request: Request;
  readonly object: JsonObjectText;
  readonly bodyBytes: number;
}

/** A request is refused because the gateway ends. */
export class ShuttingDown extends Error {
  override readonly name = "ShuttingDown";
}

/** A request is refused because nothing can be written to the books. */
export class StoreBlocked extends Error {
  constructor(blockedBy: Blocked) {
    super();
    this.name = { full: "StoreFull", busy: "StoreLocked" }[blockedBy];
  }
}
