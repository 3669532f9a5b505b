import { seededRandom } from "../seededRandom.ts";
import { ANSWER_TOKENS, answerOnlyPrices, PRICE } from "../gateway/answerOnlyPrices.ts";
import { readAnswer } from "../auditor/answerText.ts";
import {
  completion,
  doneEvent,
  helloEvent,
  stopEvent,
  usageOnly,
} from "../provider/chatAnswers.ts";
import { chat } from "../gateway/chatCalls.ts";
import type { GatewayConfig } from "../gateway/gatewayConfig.ts";
import {
  json,
  refusal,
  stream,
  type ProviderAnswer,
  type ScriptedProvider,
} from "../provider/scriptedProvider.ts";
import type { TestApp, TestKey } from "../gateway/testApp.ts";
import { several } from "../several.ts";
import { auditAt } from "../store/gatewayDatabase.ts";

export function concurrencyConfig(providerUrl: string): GatewayConfig {
  return { ...answerOnlyPrices(providerUrl), sections: { billing: { hold_wait: "100ms" } } };
}

/** The result of one load; `problems` is empty if all is well. */
export interface ConcurrencyOutcome {
  readonly served: number;
  readonly problems: readonly string[];
}

const CROWD = 200;
const PLACES = 10;

/** Two hundred at once on a balance for exactly ten, by two keys, in JSON and streams. */
export async function requestsForTenTimesTheBalance(
  gateway: TestApp,
  provider: ScriptedProvider,
  seed: number,
): Promise<ConcurrencyOutcome> {
  const first = await gateway.key({ balance: CROWD_MONEY });
  const second = await gateway.key({ account: first.account, balance: 0n });
  const keys = [first.key, second.key];
  const balance = () => gateway.balance(first);
  return await crowd({ gateways: [gateway], keys, provider, balance }, seed);
}

/** Money for exactly ten. */
export const CROWD_MONEY = BigInt(PLACES) * PRICE;

interface Crowded {
  readonly gateways: readonly { readonly url: string }[];
  readonly keys: readonly string[];
  readonly provider: ScriptedProvider;
  /** What is left of the money for ten, once nothing runs. */
  readonly balance: () => Promise<bigint | undefined>;
}

/** Two hundred requests at once, over all gateways. */
export async function crowd(
  { gateways, keys, provider, balance }: Crowded,
  seed: number,
): Promise<ConcurrencyOutcome> {
  const random = seededRandom(seed);
  provider.forget();
  provider.answer = says({ prompt_tokens: 5, completion_tokens: ANSWER_TOKENS });
  const replies = await Promise.all(
    several(CROWD, async () => {
      if (random.chance(0.5)) await Bun.sleep(random.below(20));
      const key = random.pick(keys);
      return await chat(random.pick(gateways), { key }, { stream: random.chance(0.5) });
    }),
  );
  const served = replies.filter(({ status }) => status === 200).length;
  const strange = replies.filter(({ status }) => ![200, 402, 429].includes(status));
  const left = await balance();
  const wrong = [
    [served, PLACES, "were served"],
    [provider.requests.length, PLACES, "reached the provider"],
    [left, 0n, "are left of the balance"],
    [strange.length, 0, "got another answer"],
  ].filter(([seen, expected]) => seen !== expected);
  return { served, problems: wrong.map(([seen, , what]) => `seed ${seed}: ${seen} ${what}`) };
}

const LARGE_CROWD = 1000;
const LARGE_PLACES = 60n;
const actor = { name: "tester", command: "test", at: 0 } as const;

/**
 * A thousand requests at once on a small balance, with random costs, also above the hold, while credits, debits
 * and audits run.
 */
export async function requestsOfRandomCost(
  gateway: TestApp,
  provider: ScriptedProvider,
  seed: number,
): Promise<ConcurrencyOutcome> {
  const random = seededRandom(seed);
  const key = await gateway.key({ balance: LARGE_PLACES * PRICE + BigInt(random.below(9999)) });
  provider.answer = (peer, request) => {
    if (random.chance(0.2)) return refusal(503)(peer, request);
    const usage = { prompt_tokens: 5, completion_tokens: random.below(3 * ANSWER_TOKENS) };
    return says(random.chance(0.2) ? null : usage)(peer, request);
  };
  const load = { isOver: false };
  const beside = meanwhile(gateway, key, random, () => load.isOver);
  const replies = await Promise.all(
    Array.from({ length: LARGE_CROWD }, async () => {
      await Bun.sleep(random.below(200));
      return chat(gateway, key, {
        stream: random.chance(0.5),
        ...(random.chance(0.5) ? {} : { max_tokens: 1 + random.below(ANSWER_TOKENS) }),
      });
    }),
  );
  load.isOver = true;
  const problems = [...(await beside)];
  // The answers are compared with the database, and with what the provider sent.
  await gateway.expectAuditPasses().catch((error: unknown) => problems.push(String(error)));
  const whole = replies.filter(({ text }) => readAnswer(text).outcome === "whole");
  if ((await gateway.balance(key)) < 0n) problems.push("the balance is overdrawn");
  return { served: whole.length, problems: problems.map((problem) => `seed ${seed}: ${problem}`) };
}

/** Debits, credits and audits until `isOver`; resolves with the problems that the audits found. */
async function meanwhile(
  gateway: TestApp,
  { account }: TestKey,
  random: ReturnType<typeof seededRandom>,
  isOver: () => boolean,
): Promise<readonly string[]> {
  const problems: string[] = [];
  while (!isOver()) {
    const kind = random.chance(0.6) ? "debit" : "credit";
    const amount = 1n + BigInt(random.below(Number(PRICE) * 5));
    try {
      await gateway.store.admin.changeBalance(actor, {
        account,
        kind,
        amount,
        ref: null,
        note: null,
      });
    } catch {
      // A debit of more than is available is refused.
    }
    problems.push(...(await auditAt(gateway.place, { atRest: false })));
    await Bun.sleep(random.below(5));
  }
  return problems;
}

/** The provider reports this usage, in JSON or a stream. */
export function says(usage: object | null): ProviderAnswer {
  const streamed = stream(helloEvent, stopEvent, usageOnly(usage), doneEvent);
  const whole = json(completion({ usage }));
  return (peer, request) => (request.json["stream"] === true ? streamed : whole)(peer, request);
}
