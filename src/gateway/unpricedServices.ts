import type { Clock } from "../lib/clock.ts";
import type { Candidate } from "../routing/candidates.ts";
import type { Log } from "../telemetry/log.ts";
import type { Metrics, RouteServices } from "../telemetry/metrics.ts";

/** The log tells of a service of a route once in this time. The service is forgotten after this time. */
const HOUR_MS = 3_600_000;

interface UnpricedServicesOptions {
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  readonly metrics: Pick<Metrics, "unpricedServed">;
  /** Tells the other processes of the gateway what this one has logged. */
  readonly tell?: ((served: ServedName) => void) | undefined;
}

/** One service of one route, such as `service_tier priority`. */
export interface ServedName {
  readonly provider: string;
  readonly model: string;
  readonly service: string;
}

/** Times are monotonic. */
interface ServedService extends ServedName {
  readonly toldMs: number;
  servedMs: number;
}

/**
 * Services of the last hour that cost more than the price of their model covers. Each answer is counted. The log is
 * told once an hour for each service of a route.
 */
export class UnpricedServices {
  readonly #options: UnpricedServicesOptions;
  /** By provider, its name for the model, and service. All of them come from the config and the code. */
  readonly #served = new Map<string, ServedService>();

  constructor(options: UnpricedServicesOptions) {
    this.#options = options;
  }

  /** An answer of the candidate's route had the service. */
  served({ provider, route }: Candidate, service: string, requestId: string): void {
    const { log, metrics, tell } = this.#options;
    const named = { provider: provider.id, model: route.model, service };
    metrics.unpricedServed(named);
    if (!this.#isNew(named)) return;
    tell?.(named);
    log.warn("service_expensive", {
      request_id: requestId,
      provider: provider.id,
      model: route.model,
      problem: service,
    });
  }

  /** Another process of the gateway has logged the service. */
  hear(served: ServedName): void {
    this.#isNew(served);
  }

  /** Whether the service was not served within the last hour. */
  #isNew(named: ServedName): boolean {
    const nowMs = this.#options.clock.monotonicMs();
    const key = JSON.stringify([named.provider, named.model, named.service]);
    const known = this.#served.get(key);
    if (known && nowMs < known.toldMs + HOUR_MS) {
      known.servedMs = nowMs;
      return false;
    }
    this.#served.set(key, { ...named, toldMs: nowMs, servedMs: nowMs });
    return true;
  }

  /** The routes that served any of them within the last hour. */
  recent(): readonly RouteServices[] {
    const nowMs = this.#options.clock.monotonicMs();
    const routes = new Map<string, RouteServices & { services: string[] }>();
    for (const [key, { provider, model, service, servedMs }] of this.#served) {
      if (nowMs >= servedMs + HOUR_MS) {
        this.#served.delete(key);
        continue;
      }
      const id = JSON.stringify([provider, model]);
      const route = routes.get(id) ?? { provider, model, services: [] };
      route.services.push(service);
      routes.set(id, route);
    }
    return [...routes.values()];
  }
}
