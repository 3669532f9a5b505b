import { answered } from "../provider/chatAnswers.ts";
import { chat, type Reply } from "./chatCalls.ts";
import type { GatewayConfig } from "./gatewayConfig.ts";
import type { GatewayUnderTest } from "./gatewayUnderTest.ts";
import type { TestKey } from "./testApp.ts";

/** The completion tokens of a whole answer. */
export const ANSWER_TOKENS = 10;
const TOKEN = 1000;

/** The cost of a whole answer, in nano-roubles. */
export const PRICE = BigInt(ANSWER_TOKENS * TOKEN);

export const wholeAnswer = answered({
  usage: { prompt_tokens: 5, completion_tokens: ANSWER_TOKENS },
});

/**
 * One model, `small`, for which only the answer costs, so that the hold of a whole answer equals its
 * charge. `token` is the price of one token in nano-roubles.
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
 * Sends `count` requests at once, with the keys in turns. The provider answers when all but `served`
 * of them are refused.
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
