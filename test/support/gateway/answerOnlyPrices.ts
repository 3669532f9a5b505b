import { answered } from "../provider/chatAnswers.ts";
import { chat, type Reply } from "./chatCalls.ts";
import type { GatewayConfig } from "./gatewayConfig.ts";
import type { GatewayUnderTest } from "./gatewayUnderTest.ts";
import type { TestKey } from "./testApp.ts";

/** Of a whole answer. */
export const ANSWER_TOKENS = 10;
const TOKEN = 1000;

/** What a whole answer costs, in nano-roubles. */
export const PRICE = BigInt(ANSWER_TOKENS * TOKEN);

export const wholeAnswer = answered({
  usage: { prompt_tokens: 5, completion_tokens: ANSWER_TOKENS },
});

/**
 * One model, `small`, of which only the answer costs, so that what is held for a whole one is what is
 * charged. A token of it costs this many nano-roubles.
 */
export function answerOnlyPrices(local: string, token = TOKEN): GatewayConfig {
  const settings = {
    free: true,
    rub_input_per_1m: 0,
    rub_cached_input_per_1m: 0,
    rub_cache_write_per_1m: 0,
    rub_output_per_1m: token,
    max_output_tokens: ANSWER_TOKENS,
  };
  const model = { id: "small", routes: [{ provider: "local" }], settings };
  return { providers: { local }, models: [model] };
}

/**
 * Sends so many requests at once, by turns of the keys, and lets the provider answer when all but `served`
 * of them were refused.
 */
export async function race(
  { gateway, providers }: GatewayUnderTest<"local">,
  keys: readonly TestKey[],
  { count, served }: { count: number; served: number },
): Promise<readonly Reply[]> {
  const refused = Promise.withResolvers<void>();
  providers.local.answer = async (peer, request) => {
    await refused.promise;
    await wholeAnswer(peer, request);
  };
  let refusals = 0;
  const replies = Array.from({ length: count }, async (_, index) => {
    const reply = await chat(gateway, keys[index % keys.length]);
    refusals += reply.status === 200 ? 0 : 1;
    if (refusals === count - served) refused.resolve();
    return reply;
  });
  return Promise.all(replies);
}

/** The statuses of answers, in order of their numbers. */
export function statuses(replies: readonly Reply[]): number[] {
  return replies.map(({ status }) => status).sort((a, b) => a - b);
}
