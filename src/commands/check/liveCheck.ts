import type { ChatApi, Config, ProviderConfig } from "../../config/schema.ts";
import type { Endpoint } from "../../contract/account/requestStatus.ts";
import { createCatalog } from "../../gateway/catalog.ts";
import { systemClock } from "../../lib/clock.ts";
import { idMaker, systemRandom } from "../../lib/random.ts";
import { askRoute, probesOf, type Probe } from "./probe.ts";
import { routeAdvice } from "./advice.ts";
import { table } from "../cli/format.ts";

/** What became of one route, as it stands in the document of `check --live --json`. */
export interface LiveResult {
  readonly model: string;
  readonly provider: string;
  readonly upstream_model: string;
  /** The endpoint of the gateway that the route serves. */
  readonly endpoint: Endpoint;
  /** The provider's interface that was asked for it. */
  readonly api: ChatApi;
  readonly ok: boolean;
  readonly message: string;
  readonly duration_ms: number;
}

/** The limit for one short answer, however long the timeouts of the config are. */
const ANSWER_WITHIN_MS = 30_000;
const ROUTES_AT_ONCE = 4;

/** Asks every route of the config for a short answer, a few at once, in the order of the config. */
export async function askRoutes(config: Config): Promise<readonly LiveResult[]> {
  const catalog = createCatalog(impatient(config), systemClock);
  const newId = idMaker(systemClock, systemRandom);
  try {
    return await inLanes(probesOf(catalog), async (probe): Promise<LiveResult> => {
      const startedMs = systemClock.monotonicMs();
      const failure = await askRoute(probe, newId("req"));
      const { candidate } = probe;
      return {
        model: probe.model.config.id,
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

/** One line for each route, with what failed in words. */
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

function impatient(config: Config): Config {
  const capped = (ms: number): number => Math.min(ms, ANSWER_WITHIN_MS);
  const providers = config.providers.map((provider): ProviderConfig => ({
    ...provider,
    connectTimeoutMs: capped(provider.connectTimeoutMs),
    totalTimeoutMs: capped(provider.totalTimeoutMs),
  }));
  return { ...config, providers };
}

/**
 * Runs all, a few at once, and no more of one provider than its `max_concurrent` allows. A lane that finds
 * only busy providers ends: those who keep them busy take what is left.
 */
async function inLanes(
  probes: readonly Probe[],
  ask: (probe: Probe) => Promise<LiveResult>,
): Promise<readonly LiveResult[]> {
  const waiting = [...probes.entries()];
  const results: LiveResult[] = [];
  const underWay = new Map<string, number>();
  const isFree = ({ candidate }: Probe): boolean => {
    const { id, maxConcurrent } = candidate.provider.config;
    return maxConcurrent === 0 || (underWay.get(id) ?? 0) < maxConcurrent;
  };
  const lane = async (): Promise<void> => {
    for (;;) {
      const at = waiting.findIndex(([, probe]) => isFree(probe));
      const [next] = at < 0 ? [] : waiting.splice(at, 1);
      if (next === undefined) return;
      const [place, probe] = next;
      const { id } = probe.candidate.provider;
      underWay.set(id, (underWay.get(id) ?? 0) + 1);
      results[place] = await ask(probe);
      underWay.set(id, (underWay.get(id) ?? 0) - 1);
    }
  };
  await Promise.all(Array.from({ length: ROUTES_AT_ONCE }, lane));
  return results;
}
