import type { Habit } from "../generation/meteredProvider.ts";
import { inBothForms, type Way } from "../generation/ways.ts";
import type { GatewayConfig, Section } from "../gateway/gatewayConfig.ts";

/** A model with one route, to a provider of its own. */
export interface LeaverRoute {
  readonly model: string;
  readonly habit: Habit;
  /** The seconds of its hidden reasoning: the least and the most. */
  readonly hiddenSeconds: readonly [number, number];
  readonly ways: readonly Way[];
  /** The provider's kind and the keys of the route. */
  readonly provider: Section;
  readonly route: Section;
}

const openai: Section = { kind: "openai" };
const native: Section = { responses: true };
const chatOnly: Section = { responses: false };

/** Each has another speed, another size of deltas and other signs of its reasoning. */
export const leaverRoutes: readonly LeaverRoute[] = [
  {
    model: "even",
    habit: { tokensPerSecond: 80, tokensPerDelta: 1, reasoning: "silent" },
    hiddenSeconds: [1, 20],
    ways: [...inBothForms("chat/completions", "even"), ...inBothForms("responses", "even")],
    provider: openai,
    route: native,
  },
  {
    model: "deep",
    habit: { tokensPerSecond: 60, tokensPerDelta: 1, reasoning: "silent" },
    hiddenSeconds: [20, 120],
    ways: [...inBothForms("chat/completions", "deep"), ...inBothForms("responses", "deep")],
    provider: openai,
    route: native,
  },
  {
    model: "plain",
    habit: { tokensPerSecond: 40, tokensPerDelta: 1, reasoning: "signs" },
    hiddenSeconds: [1, 10],
    ways: [
      ...inBothForms("chat/completions", "plain"),
      ...inBothForms("responses", "plain"),
      ...inBothForms("messages", "plain"),
    ],
    provider: openai,
    route: chatOnly,
  },
  {
    model: "quick",
    habit: { tokensPerSecond: 200, tokensPerDelta: 4, reasoning: "silent" },
    hiddenSeconds: [1, 30],
    ways: [...inBothForms("chat/completions", "quick"), ...inBothForms("messages", "quick")],
    provider: openai,
    route: chatOnly,
  },
  {
    model: "unreasoning",
    habit: { tokensPerSecond: 30, tokensPerDelta: 1, reasoning: "silent" },
    hiddenSeconds: [0, 0],
    ways: inBothForms("chat/completions", "unreasoning"),
    provider: openai,
    route: chatOnly,
  },
  {
    model: "over",
    habit: { tokensPerSecond: 100, tokensPerDelta: 1, reasoning: "signs" },
    hiddenSeconds: [5, 60],
    ways: [...inBothForms("chat/completions", "over"), ...inBothForms("messages", "over")],
    provider: openai,
    route: { api: "responses", responses: true },
  },
  {
    model: "told",
    habit: { tokensPerSecond: 120, tokensPerDelta: 3, reasoning: "summary" },
    hiddenSeconds: [5, 40],
    ways: [...inBothForms("responses", "told"), ...inBothForms("chat/completions", "told")],
    provider: openai,
    route: native,
  },
  {
    model: "claude",
    habit: { tokensPerSecond: 70, tokensPerDelta: 6, reasoning: "signs" },
    hiddenSeconds: [1, 60],
    ways: [...inBothForms("messages", "claude"), ...inBothForms("chat/completions", "claude")],
    provider: { kind: "anthropic" },
    route: chatOnly,
  },
  {
    model: "claude-told",
    habit: { tokensPerSecond: 90, tokensPerDelta: 6, reasoning: "summary" },
    hiddenSeconds: [5, 60],
    ways: inBothForms("messages", "claude-told"),
    provider: { kind: "anthropic" },
    route: chatOnly,
  },
  {
    model: "gemini",
    habit: { tokensPerSecond: 150, tokensPerDelta: 30, reasoning: "silent" },
    hiddenSeconds: [1, 40],
    ways: [
      ...inBothForms("chat/completions", "gemini"),
      ...inBothForms("messages", "gemini"),
      ...inBothForms("responses", "gemini"),
    ],
    provider: { kind: "gemini" },
    route: chatOnly,
  },
];

/** The bound of each answer, above every plan. */
export const boundTokens = 32_000;

/** The gateway before providers on these ports, by model. */
export function leaversConfig(ports: Readonly<Record<string, number>>): GatewayConfig {
  return {
    providers: Object.fromEntries(
      leaverRoutes.map(({ model, provider }) => [
        model,
        { base_url: `http://127.0.0.1:${ports[model]}/v1`, ...provider },
      ]),
    ),
    models: leaverRoutes.map(({ model, route }) => ({
      id: model,
      routes: [{ provider: model, ...route }],
      settings: { max_output_tokens: boundTokens },
    })),
  };
}
