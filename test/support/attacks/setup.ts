import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import type { ConfiguredModel, GatewayConfig, Section } from "../gateway/gatewayConfig.ts";
import { answerMs, promptFor, type PlannedAnswer } from "../generation/plannedAnswer.ts";
import { startMeteredProvider, type MeteredProvider } from "../generation/meteredProvider.ts";
import { inBothForms, requestBytes, type Way } from "../generation/ways.ts";
import { World } from "../world/world.ts";
import { troubled } from "./troubles.ts";

/** A world with two tenants: one attacks, and the other one is calm. */
export interface AttackSetup {
  readonly world: World;
  readonly gateway: GatewayProcess;
  readonly port: number;
  /** The key of the tenant who attacks, and of another one of the same account. */
  readonly attackerKey: string;
  readonly siblingKey: string;
  readonly victimKey: string;
  readonly providers: readonly MeteredProvider[];
  /** How long the attack took; undefined until it has done all that it does. */
  tookSeconds: number | undefined;
}

/** How the gateway of an attack differs from others. */
export interface AttackGateway {
  readonly providerKeys?: Section;
  /** The keys of models, by their ids. */
  readonly models?: Readonly<Record<string, Section>>;
  /** The most descriptors that its process may have. */
  readonly descriptors?: number;
  /** The money of the tenant who attacks, in roubles; much unless given. */
  readonly credit?: string;
}

export const attacker = "mallory";
const victim = "victoria";
/** Of every model, so that 10,000 tokens of reasoning take 50 seconds. */
export const tokensPerSecond = 200;
export const boundTokens = 16_000;

/** Each interface, native and translated, in both forms. */
export const everyWay: readonly Way[] = [
  ...inBothForms("chat/completions", "gpt"),
  ...inBothForms("responses", "gpt"),
  ...inBothForms("messages", "claude"),
  ...inBothForms("messages", "plain"),
  ...inBothForms("responses", "plain"),
  ...inBothForms("chat/completions", "gemini"),
];

/** Starts the compiled gateway before providers of all kinds. */
export async function openAttack(seed: number, gatewayOf: AttackGateway): Promise<AttackSetup> {
  const habit = { tokensPerSecond, reasoning: "silent" } as const;
  const openai = startMeteredProvider({ ...habit, tokensPerDelta: 1 }, troubled);
  const claude = startMeteredProvider(
    { ...habit, tokensPerDelta: 6, reasoning: "signs" },
    troubled,
  );
  const gemini = startMeteredProvider({ ...habit, tokensPerDelta: 30 }, troubled);
  const providers = [openai, claude, gemini];
  const config = configOf(gatewayOf, { openai, claude, gemini });
  const launcher = launcherOf(gatewayOf);
  return await World.open({ seed, providers, config, launcher }, async ({ gateway, port }) => ({
    gateway,
    port,
    attackerKey: await gateway.key(attacker, gatewayOf.credit ?? "1000000"),
    siblingKey: await gateway.key(attacker, "0"),
    victimKey: await gateway.key(victim, "1000000"),
    providers,
    tookSeconds: undefined,
  }));
}

function launcherOf({ descriptors }: AttackGateway): readonly string[] {
  return descriptors === undefined ? [] : ["prlimit", `--nofile=${descriptors}:${descriptors}`];
}

function configOf(
  { providerKeys = {}, models = {} }: AttackGateway,
  ports: Readonly<Record<"openai" | "claude" | "gemini", { readonly port: number }>>,
): GatewayConfig {
  const provider = (port: number, kind: string): Section => ({
    base_url: `http://127.0.0.1:${port}/v1`,
    kind,
    ...providerKeys,
  });
  const model = (id: string, route: Section): ConfiguredModel => ({
    id,
    routes: [{ responses: false, ...route }],
    settings: { max_output_tokens: 32_000, ...models[id] },
  });
  return {
    providers: {
      openai: provider(ports.openai.port, "openai"),
      claude: provider(ports.claude.port, "anthropic"),
      gemini: provider(ports.gemini.port, "gemini"),
    },
    models: [
      model("gpt", { provider: "openai", responses: true }),
      model("plain", { provider: "openai" }),
      model("claude", { provider: "claude" }),
      model("gemini", { provider: "gemini" }),
      model("gemini-pro", { provider: "gemini" }),
    ],
    sections: {
      // The limits that a gateway has by default.
      limits: { requests_per_minute: 600, concurrent_requests: 64 },
    },
  };
}

/** The bytes of a request for a planned answer. */
export function plannedBytes(
  key: string,
  way: Way,
  plan: PlannedAnswer,
  more: { readonly base64?: string; readonly promptEstimate?: number } = {},
): string {
  const { base64, promptEstimate = plan.promptTokens } = more;
  return requestBytes(way, key, {
    prompt: promptFor(plan, promptEstimate),
    bound: boundTokens,
    file: base64 === undefined ? undefined : { base64 },
  });
}

/** How long an answer of these providers takes, in milliseconds. */
export function tookMs(plan: PlannedAnswer): number {
  return answerMs(plan, tokensPerSecond);
}
