import { readdirSync } from "node:fs";
import type { GatewayConfig, Section } from "../gateway/gatewayConfig.ts";
import { startGatewayBefore } from "../binary/gatewayBefore.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import { scrape } from "../gateway/scrape.ts";
import type { ScriptedProvider } from "../provider/scriptedProvider.ts";
import { errorsIn } from "./operator.ts";
import { startSoakProvider } from "./provider.ts";

/** A gateway to be used, before a provider that fails now and then and one that is sound. */
export interface SoakSetup {
  readonly seed: number;
  readonly gateway: GatewayProcess;
  readonly metricsUrl: string;
  readonly accounts: readonly string[];
  readonly keys: readonly string[];
  /** The config of the so manieth reload. */
  readonly configOf: (reload: number) => GatewayConfig;
  /** Drops what the providers remember of requests. */
  forget(): void;
  close(): Promise<void>;
}

const accounts = ["alice", "bob", "carol"];
const credit = "1000000";
const restTimeoutMs = 30_000;
const restStepMs = 50;

export async function openSoakSetup(seed: number): Promise<SoakSetup> {
  const faulty = startSoakProvider(seed, false);
  const sound = startSoakProvider(seed, true);
  const configOf = (reload: number): GatewayConfig => soakConfig(faulty, sound, reload);
  const providers = {
    stop() {
      faulty.stop();
      sound.stop();
    },
  };
  const started = await startGatewayBefore(providers, configOf(0));
  const { gateway } = started;
  const keys = await Promise.all(accounts.map((account) => gateway.key(account, credit)));
  const isForMetrics = ({ msg }: { msg: string }) => msg === "listening for metrics";
  const { address } = await gateway.logged("it shows metrics", isForMetrics);
  return {
    seed,
    gateway,
    metricsUrl: `${String(address)}/metrics`,
    accounts,
    keys,
    configOf,
    forget() {
      faulty.forget();
      sound.forget();
    },
    close: () => started.close(),
  };
}

/**
 * Each reload changes both providers, so that their connections are made anew, and every other one adds a model. The
 * time-outs are short for a provider that says nothing, and long for a machine that has other things to do.
 */
function soakConfig(
  faulty: ScriptedProvider,
  sound: ScriptedProvider,
  reload: number,
): GatewayConfig {
  const connect = { connect_timeout: `${5 + (reload % 2)}s` };
  const hasty = { first_byte_timeout: "3s", idle_timeout: "3s", total_timeout: "6s" };
  const first: Section = { provider: "faulty" };
  const models = [
    { id: "single", routes: [first] },
    { id: "paired", routes: [first, { provider: "sound" }] },
    { id: "passing", routes: [first] },
  ];
  return {
    providers: {
      faulty: { base_url: `http://127.0.0.1:${faulty.port}/v1`, ...connect, ...hasty },
      sound: { base_url: `http://127.0.0.1:${sound.port}/v1`, ...connect },
    },
    models: models.slice(0, 2 + (reload % 2)),
    sections: {
      metrics: { listen: "127.0.0.1:0" },
      database: { path: "tollgate.db", durability: "power", keep_requests: "1h" },
    },
  };
}

/** What a gateway has: files and connections open, and its own objects, also some that nobody refers to any more. */
export interface Kept {
  readonly files: number;
  readonly heapBytes: number;
}

export async function resourcesOf({ gateway, metricsUrl }: SoakSetup): Promise<Kept> {
  const heapBytes = (await scrape(metricsUrl)).value("nodejs_heap_size_used_bytes");
  return { files: readdirSync(`/proc/${gateway.pid}/fd`).length, heapBytes };
}

/** Resolves when no request is under way and no money held, by the gateway's own figures. */
export async function untilAtRest({ metricsUrl }: SoakSetup): Promise<void> {
  const deadlineMs = performance.now() + restTimeoutMs;
  for (;;) {
    const found = await scrape(metricsUrl);
    const open = found.value("tollgate_open_requests");
    const held = found.value("tollgate_held_roubles");
    if (open === 0 && held === 0) return;
    if (performance.now() > deadlineMs)
      throw new Error(`at rest ${open} requests are open and ${held} roubles are held`);
    await Bun.sleep(restStepMs);
  }
}

/** What is wrong with the books, the log and the folder once all is over. */
export async function finalProblems({ gateway }: SoakSetup): Promise<readonly string[]> {
  const wrong: string[] = [];
  await gateway.expectAuditPasses().catch((error: unknown) => wrong.push(String(error)));
  const files = readdirSync(gateway.cli.folder).filter((name) => name.includes("backup"));
  return [...wrong, ...errorsIn(gateway.log), ...files.map((name) => `${name} was left behind`)];
}
