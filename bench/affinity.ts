/**
 * What affinity saves: `bun bench/affinity.ts`. 200 conversations of 20 turns go through the gateway, over HTTP, to three
 * accounts of a provider that caches prompts by OpenAI's rules: the same beginning, at least 1,024 tokens, in steps of 128,
 * for five minutes after the last use. The time is virtual. The same conversations run with affinity "session" and "none".
 */
import { formatRoubles } from "../src/lib/money.ts";
import { call } from "../test/support/gateway/chatCalls.ts";
import { openTestApp, type TestApp } from "../test/support/gateway/testApp.ts";
import { chanceOf } from "../test/support/seededRandom.ts";
import { several } from "../test/support/several.ts";

const SESSIONS = 200;
const TURNS = 20;
const ACCOUNTS = ["a", "b", "c"] as const;

const CACHED_TOKENS_MIN = 1024;
const STEP_TOKENS = 128;
const LIFE_MS = 5 * 60_000;
/** A token of the fake provider is so many characters. */
const TOKEN_CHARS = 4;

/** Conversations begin within this time. Most turns follow soon, some after the cache has forgotten. */
const START_MS = 30 * 60_000;
const TURN_MS = 40_000;
const PAUSE_MS = 8 * 60_000;
const PAUSE_CHANCE = 0.05;
/** Programs that are used by many conversations: their system text is the same. */
const PROGRAMS = 5;

/** Thousandths of a rouble per 1,000,000 tokens: a cached token costs a tenth. */
const PRICES = {
  rub_input_per_1m: 250_000,
  rub_cached_input_per_1m: 25_000,
  rub_cache_write_per_1m: 250_000,
  rub_output_per_1m: 2_000_000,
};

let nowMs = 0;

/** The prompt cache of one account. */
class PromptCache {
  readonly #lastUse = new Map<bigint, number>();
  promptTokens = 0;
  cachedTokens = 0;

  /** The cached tokens of a prompt, which is in the cache from now on. */
  read(prompt: string): { readonly prompt: number; readonly cached: number } {
    const tokens = Math.ceil(prompt.length / TOKEN_CHARS);
    let cached = 0;
    let hash = 0n;
    for (let end = STEP_TOKENS; end <= tokens; end += STEP_TOKENS) {
      const step = prompt.slice((end - STEP_TOKENS) * TOKEN_CHARS, end * TOKEN_CHARS);
      hash = Bun.hash.xxHash64(step, hash);
      const isKnown = nowMs - (this.#lastUse.get(hash) ?? -Infinity) <= LIFE_MS;
      if (isKnown && end >= CACHED_TOKENS_MIN) cached = end;
      this.#lastUse.set(hash, nowMs);
    }
    this.promptTokens += tokens;
    this.cachedTokens += cached;
    return { prompt: tokens, cached };
  }
}

function serveProvider(caches: ReadonlyMap<string, PromptCache>) {
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      const account = request.headers.get("authorization")?.slice("Bearer ".length) ?? "";
      const { messages } = (await request.json()) as { messages: readonly { content: string }[] };
      const text = messages.map(({ content }) => content).join("\n");
      const { prompt, cached } = caches.get(account)?.read(text) ?? { prompt: 0, cached: 0 };
      return Response.json({
        id: "1",
        object: "chat.completion",
        created: 1,
        model: "m",
        choices: [
          { index: 0, finish_reason: "stop", message: { role: "assistant", content: "Yes" } },
        ],
        usage: {
          prompt_tokens: prompt,
          completion_tokens: 1,
          total_tokens: prompt + 1,
          prompt_tokens_details: { cached_tokens: cached },
        },
      });
    },
  });
}

interface Turn {
  readonly atMs: number;
  readonly messages: readonly { readonly role: string; readonly content: string }[];
}

/** The turns of all conversations in the order of time. */
function turns(): readonly Turn[] {
  const all = several(SESSIONS, (session) => {
    const chance = chanceOf(7, session);
    const words = (count: number): string =>
      several(count, () => chance.below(1e6).toString(36)).join(" ");
    const program = chanceOf(11, session % PROGRAMS);
    const system = several(1500, () => program.below(1e6).toString(36)).join(" ");
    let atMs = chance.below(START_MS);
    const messages = [{ role: "system", content: system }];
    return several(TURNS, (): Turn => {
      messages.push({ role: "user", content: words(20 + chance.below(200)) });
      const turn = { atMs, messages: [...messages] };
      messages.push({ role: "assistant", content: words(50 + chance.below(500)) });
      atMs += chance.chance(PAUSE_CHANCE) ? PAUSE_MS : TURN_MS / 2 + chance.below(TURN_MS);
      return turn;
    });
  }).flat();
  return all.toSorted((one, other) => one.atMs - other.atMs);
}

async function play(app: TestApp, all: readonly Turn[]): Promise<void> {
  const key = await app.key({ balance: 1_000_000_000_000_000n });
  for (const { atMs, messages } of all) {
    nowMs = atMs;
    const body = { model: "m", messages, max_tokens: 10 };
    const { status, text } = await call(app, key, { body });
    if (status !== 200) throw new Error(`${status}: ${text}`);
  }
}

async function measure(affinity: "session" | "none", all: readonly Turn[]) {
  const caches = new Map(ACCOUNTS.map((id) => [id as string, new PromptCache()]));
  const server = serveProvider(caches);
  const app = await openTestApp({
    providers: {
      local: {
        base_url: `http://127.0.0.1:${server.port}/v1`,
        accounts: ACCOUNTS.map((id) => ({ id, api_key: id })),
      },
    },
    models: [{ id: "m", routes: [{ provider: "local", responses: false }], settings: PRICES }],
    sections: { routing: { affinity } },
  });
  try {
    await play(app, all);
    const { now } = await app.store.reports.overview("24h", app.clock.epochMs());
    const { promptTokens, cachedTokens, charged, cacheSaved } = now.figures;
    return {
      affinity,
      prompt: promptTokens,
      cached: cachedTokens,
      share: cachedTokens / promptTokens,
      // Tokens at the full price that cost as much.
      paid: promptTokens - cachedTokens * 0.9,
      charged,
      cacheSaved,
      accounts: [...caches.values()].map((cache) => cache.promptTokens / promptTokens),
    };
  } finally {
    await app.close();
    await server.stop(true);
  }
}

const all = turns();
const results = [await measure("none", all), await measure("session", all)];
const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
console.log(`${SESSIONS} conversations of ${TURNS} turns, three accounts of a provider`);
for (const one of results)
  console.log(
    `affinity ${JSON.stringify(one.affinity)}: ${one.prompt} prompt tokens, ${percent(one.share)} of them cached, ` +
      `paid as ${Math.round(one.paid)}; charged ${formatRoubles(one.charged)} roubles, the caches saved ${formatRoubles(one.cacheSaved)}; ` +
      `accounts ${one.accounts.map(percent).join(", ")}`,
  );
const [none, session] = results;
if (none !== undefined && session !== undefined)
  console.log(`affinity pays ${percent(session.paid / none.paid)} of the prompt tokens`);
