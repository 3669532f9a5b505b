import { readdirSync } from "node:fs";
import type { GatewayConfig, Section } from "../gateway/gatewayConfig.ts";
import { startGatewayBefore } from "../binary/gatewayBefore.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import { scrape } from "../gateway/scrape.ts";
import type { ScriptedProvider } from "../provider/scriptedProvider.ts";
import { errorsIn } from "./operator.ts";
import { startSoakProvider } from "./provider.ts";

/** A gateway with two providers: one fails now and then, the other never. */
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
 * time-outs are short for a silent provider, and long for a busy machine.
 */
function soakConfig(
  faulty: ScriptedProvider,
  sound: ScriptedProvider,
  reload: number,
): GatewayConfig {
  const connect = { connect_timeout: `${5 + (reload % 2)}s` };
  const shortTimeouts = { first_byte_timeout: "3s", idle_timeout: "3s", total_timeout: "6s" };
  const first: Section = { provider: "faulty" };
  const models = [
    { id: "single", routes: [first] },
    { id: "paired", routes: [first, { provider: "sound" }] },
    { id: "passing", routes: [first] },
  ];
  return {
    providers: {
      faulty: { base_url: `http://127.0.0.1:${faulty.port}/v1`, ...connect, ...shortTimeouts },
      sound: { base_url: `http://127.0.0.1:${sound.port}/v1`, ...connect },
    },
    models: models.slice(0, 2 + (reload % 2)),
    sections: {
      metrics: { listen: "127.0.0.1:0" },
      database: { path: "tollgate.db", durability: "power", keep_requests: "1h" },
    },
  };
}

/** The gateway's open files and connections, and its objects, garbage included. */
export interface Kept {
  readonly files: number;
  readonly heapBytes: number;
}

export async function resourcesOf({ gateway, metricsUrl }: SoakSetup): Promise<Kept> {
  const heapBytes = (await scrape(metricsUrl)).value("nodejs_heap_size_used_bytes");
  return { files: readdirSync(`/proc/${gateway.pid}/fd`).length, heapBytes };
}

/** Resolves when the gateway reports no request in flight and no money held. */
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

/** Problems in the database, the log and the folder at the end. */
export async function finalProblems({ gateway }: SoakSetup): Promise<readonly string[]> {
  const wrong: string[] = [];
  await gateway.expectAuditPasses().catch((error: unknown) => wrong.push(String(error)));
  const files = readdirSync(gateway.cli.folder).filter((name) => name.includes("backup"));
  return [...wrong, ...errorsIn(gateway.log), ...files.map((name) => `${name} was not removed`)];
}
