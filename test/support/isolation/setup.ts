import type { GatewayConfig } from "../gateway/gatewayConfig.ts";
import { startGatewayBefore } from "../binary/gatewayBefore.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import { startPoisonedProvider, type PoisonedProvider } from "./poisonedProvider.ts";
import type { Tag } from "./tag.ts";
import { several } from "../several.ts";

/** An answer that its tenant has seen whole. */
export interface SeenAnswer {
  readonly id: string;
  readonly tag: Tag;
  /** Where a request may go on from it: responses are known to the provider that made them. */
  readonly lane: Lane | undefined;
}

export interface Tenant {
  readonly index: number;
  readonly account: string;
  readonly key: string;
  /** Requests that it made so far; the next one bears this number. */
  asked: number;
  readonly answers: SeenAnswer[];
}

/** A model on a provider of its own, as far as the gateway can tell: its connections are kept apart. */
export interface Lane {
  readonly id: string;
  /** Requests that nobody has an answer to yet. */
  open: number;
  /** For now nobody may ask. */
  isResting: boolean;
}

/** The compiled gateway with its tenants, in front of a provider that mixes everything up. */
export interface IsolationSetup {
  readonly gateway: GatewayProcess;
  readonly port: number;
  readonly provider: PoisonedProvider;
  readonly tenants: readonly Tenant[];
  readonly lanes: readonly Lane[];
  /** Ends the gateway in good order and checks its books. */
  close(): Promise<void>;
}

const TENANTS = 20;
const LANES = 24;
export const creditRoubles = 100_000;
/** The provider reports numbers as tokens, and long answers are no runaways. */
const OUTPUT_TOKENS_MAX = 100_000;

/** Starts all of it. Close it, also after a failure. */
export async function openIsolationSetup(seed: number): Promise<IsolationSetup> {
  const provider = startPoisonedProvider(seed);
  const lanes = several(LANES, (at) => ({ id: `lane-${at}`, open: 0, isResting: false }));
  const started = await startGatewayBefore(provider, configOf(provider.port, lanes));
  const { gateway } = started;
  const port = Number(new URL(gateway.url).port);
  const tenants = await Promise.all(several(TENANTS, (index) => tenantOf(gateway, index)));
  return { gateway, port, provider, tenants, lanes, close: () => started.close() };
}

function configOf(port: number, lanes: readonly Lane[]): GatewayConfig {
  return {
    sections: { billing: { disconnect_grace: "2ms" } },
    providers: Object.fromEntries(lanes.map(({ id }) => [id, `http://127.0.0.1:${port}/${id}/v1`])),
    models: lanes.map(({ id }) => ({
      id,
      routes: [{ provider: id }],
      settings: { max_output_tokens: OUTPUT_TOKENS_MAX },
    })),
  };
}

async function tenantOf(gateway: GatewayProcess, index: number): Promise<Tenant> {
  const account = `tenant-${index}`;
  const key = await gateway.key(account, String(creditRoubles));
  return { index, account, key, asked: 0, answers: [] };
}
