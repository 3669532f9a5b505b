import { sendTimed } from "../generation/timedClient.ts";
import { inBothForms, requestBytes, type Way } from "../generation/ways.ts";
import { several } from "../several.ts";
import type { Attack, AttackRun } from "./attack.ts";
import { boundTokens, plannedBytes, type AttackGateway } from "./setup.ts";
import { troubleLine, type Trouble } from "./troubles.ts";
import { asksFor } from "./victim.ts";

/** Attacks by requests that make a provider fail, or seem to. */

const atOnce = 4;
const pauseMs = 400;
const timeoutMs = 30_000;

interface Provoking {
  readonly trouble: Trouble;
  readonly way: Way;
  /** What the victim asks for; the same unless given. */
  readonly victimWays?: readonly Way[];
  readonly prompt?: string;
  /** Header lines of the request. */
  readonly lines?: string;
}

const chat: Way = { path: "chat/completions", model: "gpt", stream: false };
const message: Way = { path: "messages", model: "claude", stream: false };
const longBeta = `anthropic-beta: ${"context-management-2025-06-27,".repeat(268)}x\r\n`;

const provoking: readonly Provoking[] = [
  { trouble: "500", way: chat },
  { trouble: "429 too large", way: chat },
  { trouble: "408", way: chat },
  { trouble: "403 HTML", way: chat },
  { trouble: "431", way: message, lines: longBeta },
  {
    trouble: "403 video",
    way: { ...chat, model: "gemini" },
    victimWays: inBothForms("chat/completions", "gemini-pro"),
    prompt: "Tell me what https://www.youtube.com/watch?v=9hE5-98ZeCg shows. ",
  },
  { trouble: "402", way: chat },
];

function provokes({ trouble, way, victimWays, prompt = "", lines = "" }: Provoking): Attack {
  return {
    name: trouble,
    gateway: {},
    victim: asksFor(victimWays ?? inBothForms(way.path, way.model)),
    isPaid: false,
    run: (given) =>
      inLoops(given, (number) =>
        requestBytes(way, given.setup.attackerKey, {
          prompt: `${number} ${prompt}${troubleLine(trouble)}`,
          bound: boundTokens,
          lines,
        }),
      ),
  };
}

/** Sends requests one after the other in a few loops. */
async function inLoops(
  { setup, isOver }: AttackRun,
  bytesOf: (number: number) => string,
  loops = atOnce,
): Promise<void> {
  let sent = 0;
  const loop = async (): Promise<void> => {
    while (!isOver()) {
      sent += 1;
      await sendTimed({ port: setup.port, bytes: bytesOf(sent), timeoutMs });
      await Bun.sleep(pauseMs);
    }
  };
  await Promise.all(several(loops, loop));
}

/** Answers that last longer than the gateway waits. Its times are scaled: it waits seconds instead of minutes. */
function outlasts(
  name: string,
  {
    stream,
    hiddenTokens,
    visibleTokens,
    isPaid,
    ...gateway
  }: AttackGateway & {
    readonly stream: boolean;
    readonly hiddenTokens: number;
    readonly visibleTokens: number;
    readonly isPaid: boolean;
  },
): Attack {
  const way = { ...chat, stream };
  const planName = name.replaceAll(" ", "-");
  const plan = { name: planName, promptTokens: 500, firstMs: 200, hiddenTokens, visibleTokens };
  return {
    name,
    gateway,
    victim: asksFor(inBothForms("chat/completions", "gpt")),
    isPaid,
    run: (given) => inLoops(given, () => plannedBytes(given.setup.attackerKey, way, plan), 8),
  };
}

/** An answer of 15 seconds. */
const LONG_TOKENS = 3000;

export const provokingAttacks: readonly Attack[] = [
  ...provoking.map(provokes),
  {
    ...provokes({ trouble: "500", way: chat }),
    name: "500, with a fallback",
    gateway: {
      models: {
        gpt: { fallbacks: ["claude"] },
        claude: { rub_input_per_1m: 250_000, rub_output_per_1m: 2_000_000 },
      },
    },
    // Only an answer in JSON has its cost in a header.
    victim: asksFor([chat]),
  },
  outlasts("first_byte_timeout", {
    stream: true,
    hiddenTokens: LONG_TOKENS,
    visibleTokens: 20,
    isPaid: false,
    providerKeys: { first_byte_timeout: "2s" },
  }),
  outlasts("total_timeout, stream", {
    stream: true,
    hiddenTokens: 0,
    visibleTokens: LONG_TOKENS,
    isPaid: true,
    providerKeys: { total_timeout: "3s" },
  }),
  outlasts("total_timeout, JSON", {
    stream: false,
    hiddenTokens: 0,
    visibleTokens: LONG_TOKENS,
    isPaid: false,
    providerKeys: { total_timeout: "3s" },
  }),
];
