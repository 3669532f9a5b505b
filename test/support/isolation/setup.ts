import type { GatewayConfig } from "../gateway/gatewayConfig.ts";
import { several } from "../several.ts";
import { World } from "../world/world.ts";
import { startPoisonedProvider, type PoisonedProvider } from "./poisonedProvider.ts";
import type { Tag } from "./tag.ts";

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

/** A world with tenants and a provider that mixes up answers. */
export interface IsolationSetup {
  readonly world: World;
  readonly amount: number;
  readonly provider: PoisonedProvider;
  readonly tenants: readonly Tenant[];
  readonly lanes: readonly Lane[];
}

const TENANTS = 20;
const LANES = 24;
/** The provider reports numbers as tokens, and long answers are no runaways. */
const OUTPUT_TOKENS_MAX = 100_000;
export const creditRoubles = "100000";

export async function openIsolation(seed: number, amount: number): Promise<IsolationSetup> {
  const provider = startPoisonedProvider(seed);
  const lanes = several(LANES, (at) => ({ id: `lane-${at}`, open: 0, isResting: false }));
  const config = configOf(provider.port, lanes);
  return await World.open({ seed, providers: [provider], config }, async ({ gateway }) => {
    const tenantOf = async (index: number): Promise<Tenant> => {
      const account = `tenant-${index}`;
      const key = await gateway.key(account, creditRoubles);
      return { index, account, key, asked: 0, answers: [] };
    };
    const tenants = await Promise.all(several(TENANTS, tenantOf));
    return { amount, provider, tenants, lanes };
  });
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
