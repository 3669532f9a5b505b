import { beforeEach, expect, test } from "bun:test";
import { candidatesOf } from "../../../src/gateway/catalog.ts";
import { orderCandidates } from "../../../src/routing/candidates.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import type { Section } from "../../support/gateway/gatewayConfig.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { amount } from "../../support/sample.ts";
import { usual } from "../../support/provider/chatAnswers.ts";
import { refusal, type ProviderAnswer } from "../../support/provider/scriptedProvider.ts";
import { seededRandom } from "../../support/seededRandom.ts";

/** Thirty accounts at one server: 5 refuse their key or cannot be reached, 5 are limited, 5 are slow. */
const weightOf = (at: number): number => (at % 3) + 1;
const goneAt = 4;
const accountsAt = (baseUrl: string): readonly Section[] =>
  Array.from({ length: 30 }, (_, index) => ({
    id: `n${index}`,
    api_key: `sk-${index}`,
    weight: weightOf(index),
    base_url: index === goneAt ? "http://127.0.0.1:1/v1" : baseUrl,
  }));
const at = openBefore(["one"], ({ one }) => ({
  providers: { one: { base_url: one, accounts: accountsAt(one) } },
  models: [{ id: "small", routes: [{ provider: "one" }] }],
}));

const slowly: ProviderAnswer = async (peer, request) => {
  await Bun.sleep(200);
  await usual(peer, request);
};
const limited = refusal(429, "slow down", { "retry-after": "30" });

function answerOf(index: number): ProviderAnswer {
  if (index < 5) return refusal(index % 2 === 0 ? 401 : 402);
  if (index < 10) return index % 2 === 0 ? limited : refusal(429);
  return index < 15 ? slowly : usual;
}

const indexOf = (headers: readonly (readonly [string, string])[]): number =>
  Number((headers.find(([name]) => name === "authorization")?.[1] ?? "").split("-").at(-1));

beforeEach(() => {
  at.providers.one.answer = (peer, request) => answerOf(indexOf(request.headers))(peer, request);
});

test("no request fails while one account can answer", async () => {
  const keys = await Promise.all(Array.from({ length: 20 }, () => at.gateway.key()));
  const requests = amount(600, 6000);
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < requests) {
      const request = (next += 1);
      // The limited accounts come back, and are limited again.
      if (request % 200 === 0) await at.gateway.advance(31_000);
      const stream = request % 2 === 0;
      const user = `session ${request % 150}`;
      const reply = await chat(at.gateway, keys[request % keys.length], { stream, user });
      expect(reply.status).toBe(200);
    }
  };
  await Promise.all(Array.from({ length: 30 }, client));
  const counts = Array<number>(30).fill(0);
  for (const { headers } of at.providers.one.requests) counts[indexOf(headers)]! += 1;
  const dead = counts.slice(0, 5);
  // Each request that was in flight may have met a dead account once, not one after it.
  for (const count of dead) expect(count).toBeLessThanOrEqual(30);
  for (const count of counts.slice(10)) expect(count).toBeGreaterThan(0);
}, 60_000);

test("accounts are chosen by weight, within two in a hundred, and do not change the shares of routes", () => {
  const { catalog } = at.gateway.app.gateway.current;
  const candidates = candidatesOf(catalog);
  const chance = seededRandom(38);
  const random = {
    bytes: (length: number) => new Uint8Array(length),
    fraction: () => chance.below(2 ** 30) / 2 ** 30,
  };
  const drawn = new Map<string, number>();
  const rounds = 100_000;
  for (let round = 0; round < rounds; round += 1) {
    const [first] = orderCandidates(candidates, undefined, random);
    const id = first?.provider.id ?? "";
    drawn.set(id, (drawn.get(id) ?? 0) + 1);
  }
  for (const weight of [1, 2, 3]) {
    const ofWeight = candidates.filter((_, index) => weightOf(index) === weight);
    const count = ofWeight.reduce((sum, { provider }) => sum + (drawn.get(provider.id) ?? 0), 0);
    expect(Math.abs((count / rounds) * 6 - weight)).toBeLessThan(0.02 * weight);
  }
  const sum = candidates.reduce((weights, { weight }) => weights + weight, 0);
  expect(sum).toBeCloseTo(1, 9);
});
