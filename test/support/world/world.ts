import { readdirSync } from "node:fs";
import { parseRoubles } from "../../../src/lib/money.ts";
import {
  startGatewayProcess,
  type GatewayProcess,
  type GatewayProcessOptions,
} from "../binary/gatewayProcess.ts";
import type { LogLine } from "../binary/servingProcess.ts";
import { call, chat } from "../gateway/chatCalls.ts";
import { prices, type GatewayConfig } from "../gateway/gatewayConfig.ts";
import { scrape, type Scrape } from "../gateway/scrape.ts";
import { residentBytes } from "../measurement.ts";
import { until, untilAsync } from "../until.ts";
import { openConnection, type Connection } from "./connection.ts";

/** What stands behind the gateway of a world. */
export interface WorldProvider {
  /** Connections that the gateway keeps open to it. */
  readonly openCount?: number;
  /** Answers that it still generates. */
  readonly busyCount?: number;
  stop(): unknown;
}

export interface WorldParts extends GatewayProcessOptions {
  readonly seed: number;
  readonly providers: readonly WorldProvider[];
  readonly config: GatewayConfig;
  /** Where the providers say what they found. */
  readonly problems?: string[];
}

/** The resources of an idle gateway: of all its processes together. */
export interface Kept {
  /** Open files and connections, without those to its providers. */
  readonly files: number;
  /** Objects, garbage included. */
  readonly heapBytes: number;
  readonly residentBytes: number;
}

/** The largest hold for a short prompt, in nano-roubles. */
const promptHoldMax = 50_000_000n;
const restTimeoutMs = 30_000;
const restStepMs = 50;

/** The compiled gateway before its providers, with what its clients counted. Close it, also after a failure. */
export class World {
  readonly seed: number;
  readonly gateway: GatewayProcess;
  /** How often things happened, by their names. */
  readonly counts: Record<string, number> = {};
  /** What else is told at the end. */
  readonly figures: Record<string, unknown> = {};
  readonly problems: string[];
  /** By `performance.now()`: at this time all clients leave. */
  endMs = Infinity;
  readonly #providers: readonly WorldProvider[];
  /** What a hold takes for a token of an answer of the model `small`. */
  readonly #outputPrice: bigint;
  #metricsUrl = "";

  /** `prepare` makes what else there is, such as keys. Nothing of the world is left behind where it fails. */
  static async open<Setup extends object>(
    { config, ...parts }: WorldParts,
    prepare: (world: World) => Setup | Promise<Setup>,
  ): Promise<Setup & { readonly world: World }> {
    let world: World | undefined;
    try {
      const gateway = await startGatewayProcess(withMetrics(config), parts);
      world = new World({ ...parts, gateway, outputPrice: highestOutputPrice(config) });
      return { ...(await prepare(world)), world };
    } catch (error) {
      if (world) await world.close().catch(() => undefined);
      else for (const provider of parts.providers) await provider.stop();
      throw error;
    }
  }

  private constructor(
    parts: Omit<WorldParts, "config"> & {
      readonly gateway: GatewayProcess;
      readonly outputPrice: bigint;
    },
  ) {
    this.seed = parts.seed;
    this.problems = parts.problems ?? [];
    this.gateway = parts.gateway;
    this.#outputPrice = parts.outputPrice;
    this.#providers = parts.providers;
  }

  get port(): number {
    return Number(new URL(this.gateway.url).port);
  }

  count(what: string, more = 1): void {
    this.counts[what] = this.counted(what) + more;
  }

  counted(what: string): number {
    return this.counts[what] ?? 0;
  }

  /** `isHead` says by an answer's index whether it is to a HEAD. */
  connect(isHead: (index: number) => boolean = () => false): Promise<Connection> {
    return openConnection(this.port, isHead);
  }

  /** Resolves when the gateway uses this config. */
  async reload(config: GatewayConfig): Promise<void> {
    await this.gateway.configure(withMetrics(config));
    const since = this.gateway.log.length;
    this.gateway.signal("SIGHUP");
    await this.gateway.logged("it reloads", ({ msg }) => msg === "config reloaded", since);
  }

  async scrape(): Promise<Scrape> {
    const isForMetrics = ({ msg }: LogLine) => msg === "listening for metrics";
    // The log may have been dropped since the latest start.
    const line = this.gateway.log.findLast(isForMetrics);
    if (line !== undefined) this.#metricsUrl = `${String(line["address"])}/metrics`;
    return await scrape(this.#metricsUrl);
  }

  /** Resolves when no provider generates, no request is open and no money is held. */
  async atRest(timeoutMs = restTimeoutMs): Promise<void> {
    const isIdle = (): boolean => this.#providers.every(({ busyCount = 0 }) => busyCount === 0);
    await until("no provider generates any more", isIdle, timeoutMs);
    const isAtRest = async (): Promise<boolean> => {
      const found = await this.scrape();
      await Bun.sleep(restStepMs);
      return (
        found.value("tollgate_open_requests") === 0 && found.value("tollgate_held_roubles") === 0
      );
    };
    await untilAsync("no request is open and no money is held", isAtRest, timeoutMs);
  }

  /** Sends a request that needs all of the money of a key: it is refused if any of it is still held. */
  async expectAllFree(key: string): Promise<void> {
    const { body } = await call(this.gateway, { key }, { path: "/v1/account" });
    const available = parseRoubles((body as { available_rub: string }).available_rub) ?? 0n;
    const bound = Number((available - promptHoldMax) / this.#outputPrice);
    const { status, text } = await chat(this.gateway, { key }, { max_tokens: bound });
    if (status !== 200) this.problems.push(`not all of the money is free: ${status} ${text}`);
  }

  async kept(): Promise<Kept> {
    const { pids } = this.gateway;
    const heapBytes = (await this.scrape()).value("nodejs_heap_size_used_bytes");
    const toProviders = this.#providers.reduce((sum, { openCount = 0 }) => sum + openCount, 0);
    const files = pids.reduce((sum, pid) => sum + readdirSync(`/proc/${pid}/fd`).length, 0);
    return { files: files - toProviders, heapBytes, residentBytes: residentBytes(pids) };
  }

  /** Stops the gateway with SIGTERM and runs the audits. */
  async close(): Promise<void> {
    try {
      await this.gateway.close();
    } finally {
      for (const provider of this.#providers) await provider.stop();
    }
  }
}

/** That of the highest tier of the model `small`: no bound keeps a short prompt out of it. */
function highestOutputPrice({ models }: GatewayConfig): bigint {
  const tiers = models.find(({ id }) => id === "small")?.settings?.["tiers"];
  const outputs = (Array.isArray(tiers) ? tiers : []).map((tier: object) =>
    "rub_output_per_1m" in tier ? Number(tier.rub_output_per_1m) : 0,
  );
  return BigInt(Math.max(prices.output, ...outputs));
}

function withMetrics(config: GatewayConfig): GatewayConfig {
  return { ...config, sections: { ...config.sections, metrics: { listen: "127.0.0.1:0" } } };
}
