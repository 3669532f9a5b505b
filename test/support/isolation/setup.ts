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
  /** The lane for a request that continues this response: only its own provider knows it. */
  readonly lane: Lane | undefined;
}

export interface Tenant {
  readonly index: number;
  readonly account: string;
  readonly key: string;
  /** The requests made so far, and the number of the next one. */
  asked: number;
  readonly answers: SeenAnswer[];
}

/** A model with its own provider id, so that its connections are separate. */
export interface Lane {
  readonly id: string;
  /** Unanswered requests. */
  open: number;
  /** No requests may be sent for now. */
  isResting: boolean;
}

/** The compiled gateway with its tenants and a provider that mixes up answers. */
export interface IsolationSetup {
  readonly gateway: GatewayProcess;
  readonly port: number;
  readonly provider: PoisonedProvider;
  readonly tenants: readonly Tenant[];
  readonly lanes: readonly Lane[];
  /** Stops the gateway with SIGTERM and runs the audits. */
  close(): Promise<void>;
}

const TENANTS = 20;
const LANES = 24;
export const creditRoubles = 100_000;
/** The provider reports numbers as tokens, and long answers are no runaways. */
const OUTPUT_TOKENS_MAX = 100_000;

/** Starts everything. Close it, also after a failure. */
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
