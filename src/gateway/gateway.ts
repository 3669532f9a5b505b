import type { Holds } from "../billing/holds.ts";
import type { OpenMeters } from "../billing/openMeters.ts";
import type { KnownKeys } from "../auth/knownKeys.ts";
import type { Config } from "../config/schema.ts";
import type { Clock, Deadlines } from "../lib/clock.ts";
import type { Random } from "../lib/random.ts";
import type { UpstreamExchange } from "../providers/upstream.ts";
import type { RouteHealth } from "../routing/routeHealth.ts";
import type { PromptCounts } from "../routing/promptCounts.ts";
import type { RouteSpeeds } from "../routing/routeSpeeds.ts";
import type { RetryBudget } from "../routing/attempts.ts";
import type { Store, Writer } from "../store/store.ts";
import type { Log } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Tracing } from "../telemetry/tracing.ts";
import type { Catalog } from "./catalog.ts";
import type { LargeBodies } from "./largeBodies/largeBodies.ts";
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
  /** The config for new requests. A reload replaces it. */
  readonly current: ConfigSnapshot;
  readonly store: Store;
  readonly writer: Writer;
  readonly knownKeys: KnownKeys;
  readonly holds: Holds;
  readonly openMeters: OpenMeters;
  readonly retryBudget: RetryBudget;
  readonly health: RouteHealth;
  readonly clock: Clock;
  /** The deadlines of streams to clients. Each provider has deadlines of its own. */
  readonly deadlines: Deadlines;
  readonly random: Random;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Undefined if no traces are sent. */
  readonly tracing: Tracing | undefined;
  readonly inFlight: InFlightState;
  readonly speeds: RouteSpeeds;
  /** How the routes count prompts, compared with the estimates. */
  readonly promptCounts: PromptCounts;
  readonly leftAnswers: LeftAnswers;
  /** Services that cost more than the price of their model covers. */
  readonly unpriced: UnpricedServices;
  readonly largeBodies: LargeBodies;
}

export interface InFlightState {
  /** Exchanges with providers. A shutdown aborts them. */
  readonly exchanges: Set<UpstreamExchange>;
  /** The gateway stops and aborts all requests. */
  isAborting: boolean;
}

/** The cause of a refusal while the gateway stops. */
export class ShuttingDown extends Error {
  override readonly name = "ShuttingDown";
}
