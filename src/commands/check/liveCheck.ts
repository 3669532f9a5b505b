import type { Config, ProviderConfig } from "../../config/schema.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import { candidatesOf, createCatalog, type Catalog } from "../../gateway/catalog.ts";
import { askRoute, probeOf, type Probe, type ProbedApi } from "../../gateway/routeProbe.ts";
import { systemClock } from "../../lib/clock.ts";
import { idMaker, systemRandom } from "../../lib/random.ts";
import { routeAdvice } from "./advice.ts";
import { table } from "../../lib/terminal.ts";

/** The result of one route in `check --live --json`. */
export interface LiveResult {
  readonly model: string;
  readonly provider: string;
  readonly upstream_model: string;
  /** The endpoint of the gateway that the route serves. */
  readonly endpoint: Endpoint;
  /** The provider's interface that serves it. */
  readonly api: ProbedApi;
  readonly ok: boolean;
  readonly message: string;
  readonly duration_ms: number;
}

/** The limit for one short answer, even if the timeouts of the config are longer. */
const ANSWER_TIMEOUT_MAX_MS = 30_000;
/** Requests at the same time to one provider. */
const CONCURRENT_MAX = 4;

/** Asks every route of the config for a short answer. The results are in the order of the config. */
export async function askRoutes(config: Config): Promise<readonly LiveResult[]> {
  const catalog = createCatalog(withShortTimeouts(config), systemClock);
  const newId = idMaker(systemClock, systemRandom);
  try {
    return await runProbes(probesOf(catalog), async (probe): Promise<LiveResult> => {
      const startedMs = systemClock.monotonicMs();
      const failure = await askRoute(probe, newId("req"));
      const { candidate } = probe;
      return {
        model: candidate.model.id,
        provider: candidate.provider.id,
        upstream_model: candidate.route.model,
        endpoint: probe.endpoint,
        api: probe.api,
        ok: failure === undefined,
        message: failure === undefined ? "ok" : routeAdvice(probe, failure),
        duration_ms: Math.round(systemClock.monotonicMs() - startedMs),
      };
    });
  } finally {
    catalog.close();
  }
}

/** The probes of all routes, in the order of the config. */
function probesOf(catalog: Catalog): readonly Probe[] {
  return candidatesOf(catalog).flatMap((candidate): Probe[] => {
    const probe = probeOf(candidate);
    if (!candidate.route.responses || probe.endpoint !== "chat") return [probe];
    return [probe, { candidate, endpoint: "responses", api: "responses" }];
  });
}

/** A table with one line for each route. */
export function liveText(results: readonly LiveResult[]): string {
  const columns = [
    { head: "model" },
    { head: "provider" },
    { head: "provider's name" },
    { head: "api" },
    { head: "ms", kind: "number" },
    { head: "result" },
  ] as const;
  return table(
    columns,
    results.map((result) => [
      result.model,
      result.provider,
      result.upstream_model,
      result.endpoint === result.api ? result.api : `${result.endpoint} over ${result.api}`,
      String(result.duration_ms),
      result.message,
    ]),
  );
}

function withShortTimeouts(config: Config): Config {
  const capped = (ms: number): number => Math.min(ms, ANSWER_TIMEOUT_MAX_MS);
  const providers = config.providers.map((provider): ProviderConfig => ({
    ...provider,
    connectTimeoutMs: capped(provider.connectTimeoutMs),
    totalTimeoutMs: capped(provider.totalTimeoutMs),
  }));
  return { ...config, providers };
}

/** Runs all probes: providers at the same time, and of one provider no more at once than its `max_concurrent`. */
async function runProbes(
  probes: readonly Probe[],
  ask: (probe: Probe) => Promise<LiveResult>,
): Promise<readonly LiveResult[]> {
  const results: LiveResult[] = [];
  const runQueue = async (queue: [number, Probe][]): Promise<void> => {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const [at, probe] = next;
      results[at] = await ask(probe);
    }
  };
  const byProvider = Map.groupBy(probes.entries(), ([, probe]) => probe.candidate.provider);
  const runs = [...byProvider].flatMap(([{ config }, queue]) => {
    const concurrent = Math.min(config.maxConcurrent || CONCURRENT_MAX, CONCURRENT_MAX);
    return Array.from({ length: concurrent }, () => runQueue(queue));
  });
  await Promise.all(runs);
  return results;
}
