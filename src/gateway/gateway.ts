import type { Holds } from "../billing/hold.ts";
import type { OpenMeters } from "../billing/meter.ts";
import type { Caller } from "../auth/knownKeys.ts";
import type { KnownKeys } from "../auth/knownKeys.ts";
import type { Config } from "../config/schema.ts";
import type { Clock, Deadlines } from "../lib/clock.ts";
import type { JsonObjectText } from "../lib/json.ts";
import type { Random } from "../lib/random.ts";
import type { RateLimitPermit } from "../limits/keyRates.ts";
import type { UpstreamExchange } from "../providers/upstream.ts";
import type { RouteHealth } from "../routing/routeHealth.ts";
import type { PromptCounts } from "../routing/promptCounts.ts";
import type { RouteSpeeds } from "../routing/routeSpeeds.ts";
import type { RetryBudget } from "../routing/attempts.ts";
import type { Store, Writer } from "../store/store.ts";
import type { Log, LogFields } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { RequestSpan, Tracing } from "../telemetry/tracing.ts";
import type { Catalog } from "./catalog.ts";
import type { LeftAnswers } from "./leftAnswers.ts";
import type { UnpricedServices } from "./unpricedServices.ts";

/** A config with its catalog of models. A request keeps the one that was in force when it arrived. */
export interface ConfigSnapshot {
  readonly config: Config;
  /** When the config came into force, in milliseconds since 1970. */
  readonly loadedAt: number;
  readonly catalog: Catalog;
}

/** The services that the path of a request uses. */
export interface Gateway {
  /** For new requests. A reload replaces it. */
  readonly current: ConfigSnapshot;
  readonly store: Store;
  readonly writer: Writer;
  readonly knownKeys: KnownKeys;
  readonly holds: Holds;
  readonly openMeters: OpenMeters;
  readonly retryBudget: RetryBudget;
  readonly health: RouteHealth;
  readonly clock: Clock;
  /** Of the streams to clients. Each provider has its own. */
  readonly deadlines: Deadlines;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Undefined if no traces are sent. */
  readonly tracing: Tracing | undefined;
  readonly inFlight: InFlightState;
  /** How fast each route generates. */
  readonly speeds: RouteSpeeds;
  /** What each route counts for prompts. */
  readonly promptCounts: PromptCounts;
  readonly leftAnswers: LeftAnswers;
  /** What providers serve that costs more than the price is for. */
  readonly unpriced: UnpricedServices;
}

/** What is in flight. */
export interface InFlightState {
  /** Exchanges with providers. A shutdown aborts them. */
  readonly exchanges: Set<UpstreamExchange>;
  /** The gateway stops and aborts all requests. */
  isAborting: boolean;
}

/** A request that passed authentication and rate limits. */
export interface RequestContext {
  readonly requestId: string;
  /** The config that was in force when the request arrived. */
  readonly snapshot: ConfigSnapshot;
  readonly caller: Caller;
  readonly permit: RateLimitPermit;
  /** Aborted when the client disconnects. */
  readonly signal: AbortSignal;
  /** The value of a header of the request; null without it. */
  header(name: string): string | null;
  /** Undefined if no traces are sent. */
  readonly span: RequestSpan | undefined;
  /** Adds fields to the request's log line. */
  addLogFields(fields: LogFields): void;
  /** Adds the cause of a failure after the answer began to the log line. */
  logFailure(error: unknown): void;
  /** Called when a streamed answer has ended. A JSON answer ends when it is returned. */
  onStreamEnd(): void;
}

/** A validated request with the client's text. */
export interface CheckedBody<Request> {
  readonly request: Request;
  readonly object: JsonObjectText;
  readonly bodyBytes: number;
}

/** The cause of a refusal while the gateway stops. */
export class ShuttingDown extends Error {
  override readonly name = "ShuttingDown";
}
