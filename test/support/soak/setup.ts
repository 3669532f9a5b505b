import type { GatewayConfig, Section } from "../gateway/gatewayConfig.ts";
import type { ScriptedProvider } from "../provider/scriptedProvider.ts";
import type { Connection } from "../world/connection.ts";
import { World } from "../world/world.ts";
import type { WholeAnswer } from "./charges.ts";
import { startSoakProvider } from "./provider.ts";

/** A gateway with two providers: one fails now and then, the other never. */
export interface SoakSetup {
  readonly world: World;
  readonly amount: number;
  readonly faulty: ScriptedProvider;
  readonly sound: ScriptedProvider;
  readonly keys: readonly string[];
  /** Connections that the clients keep. */
  readonly idle: Connection[];
  /** When the next request is due, by `performance.now()`. */
  nextMs: number;
  readonly whole: WholeAnswer[];
  /** Ids of requests that must be free. */
  readonly unpaid: string[];
  /** The last row that was looked at. */
  lastRow: bigint;
}

export const accounts = ["alice", "bob", "carol"];
const credit = "1000000";
export async function openSoak(seed: number, amount: number): Promise<SoakSetup> {
  const faulty = startSoakProvider(seed, false);
  const sound = startSoakProvider(seed, true);
  const config = soakConfig({ faulty, sound }, 0);
  return await World.open({ seed, providers: [faulty, sound], config }, async ({ gateway }) => {
    const keys = await Promise.all(accounts.map((account) => gateway.key(account, credit)));
    const setup = { amount, faulty, sound, keys, nextMs: 0, lastRow: 0n };
    return { ...setup, idle: [], whole: [], unpaid: [] };
  });
}

/**
 * The config of the so manieth reload. Each changes both providers, so that their connections are made anew, and every
 * other one adds a model. The time-outs are short for a silent provider, and long for a busy machine.
 */
export function soakConfig(
  { faulty, sound }: Pick<SoakSetup, "faulty" | "sound">,
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
      database: { path: "tollgate.db", durability: "power", keep_requests: "1h" },
    },
  };
}
