import { expect, test } from "bun:test";
import { formatRoubles } from "../../../src/lib/money.ts";
import { call, chat, unknownModel } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { TestKey } from "../../support/gateway/testApp.ts";
import { untilAsync } from "../../support/until.ts";
import { usual } from "../../support/provider/chatAnswers.ts";

const DAY_MS = 86_400_000;
const today = new Date(Math.floor(Date.now() / DAY_MS) * DAY_MS);
const inDays = (days: number): string => new Date(today.getTime() + days * DAY_MS).toISOString();

const at = openBefore(["local"], ({ local }) => ({
  providers: { local },
  models: [
    {
      id: "small",
      routes: [{ provider: "local" }],
      settings: { rub_cached_input_per_1m: 2500, aliases: ["tiny", "small-*"] },
    },
    { id: "other", routes: [{ provider: "local" }] },
  ],
  tables: `
[[prices]]
model = "small"
from = ${inDays(10)}
rub_input_per_1m = 50000
rub_output_per_1m = 400000
rub_cached_input_per_1m = 5000

[[plans]]
id = "wholesale"
[[plans.rules]]
models = "small"
until = ${inDays(5)}
percent = 50
[[plans.rules]]
models = "*all"
rub_input_per_1m = 1000
`,
}));

async function keyWith(plan: string | null): Promise<TestKey> {
  const key = await at.gateway.key();
  const actor = { name: "tester", command: "test", at: Date.now() };
  if (plan !== null) await at.gateway.store.admin.setAccount(actor, key.account, { plan });
  await at.gateway.toldOfChanges();
  return key;
}

/** The charge of a chat, and its note. */
async function charged(key: TestKey, model: string): Promise<unknown> {
  at.providers.local.answer = usual;
  const { status, id } = await chat(at.gateway, key, { model });
  expect(status).toBe(200);
  const { body } = await call(at.gateway, key, { method: "GET", path: `/v1/requests/${id}` });
  const { cost_rub, pricing, model: recorded } = body as Record<string, unknown>;
  return { cost_rub, pricing, model: recorded };
}

async function shown(key: TestKey, model: string): Promise<Record<string, unknown>> {
  const reply = await call(at.gateway, key, { method: "GET", path: `/v1/models/${model}` });
  return reply.body as Record<string, unknown>;
}

/** What the usual answer costs: 20 prompt tokens, of them 5 cached and 3 written to the cache, and 7 of the answer. */
function costOf(price: { input: bigint; cached: bigint; write: bigint; output: bigint }): string {
  const { input, cached, write, output } = price;
  return formatRoubles(12n * input + 5n * cached + 3n * write + 7n * output);
}

const first = { input: 25_000n, cached: 2500n, write: 30_000n, output: 200_000n };
const half = { input: 12_500n, cached: 1250n, write: 15_000n, output: 100_000n };
const next = { input: 50_000n, cached: 5000n, write: 50_000n, output: 400_000n };
const byRule = { plan: "wholesale", plan_rule: "small" };

test("an account pays the prices of its plan and of the day, and sees them before", async () => {
  const plain = await keyWith(null);
  const wholesale = await keyWith("wholesale");
  const gone = await keyWith("gone");
  const small = { model: "small" };
  const both = async (ofPlain: typeof first, ofPlan: typeof first, rule: object): Promise<void> => {
    expect(await charged(plain, "small")).toEqual({ ...small, cost_rub: costOf(ofPlain) });
    expect(await charged(wholesale, "small")).toEqual({
      ...small,
      cost_rub: costOf(ofPlan),
      pricing: rule,
    });
  };
  await both(first, half, byRule);
  expect(await charged(gone, "small")).toEqual({ ...small, cost_rub: costOf(first) });
  expect(await charged(wholesale, "other")).toEqual({
    model: "other",
    cost_rub: costOf(first),
  });
  const [before, beforeOfPlan] = [await shown(plain, "small"), await shown(wholesale, "small")];
  expect(before).toMatchObject({
    rub_input_per_1m: 25_000,
    next: { from: inDays(10), rub_input_per_1m: 50_000, rub_cached_input_per_1m: 5000 },
    aliases: ["tiny", "small-*"],
  });
  expect(beforeOfPlan).toMatchObject({
    rub_input_per_1m: 12_500,
    rub_output_per_1m: 100_000,
    next: { from: inDays(5), rub_input_per_1m: 1000 },
  });

  await at.gateway.advance(6 * DAY_MS);
  const other = { plan: "wholesale", plan_rule: "*all" };
  await both(first, { ...first, input: 1000n }, other);

  await at.gateway.advance(5 * DAY_MS);
  // A price that falls back to the input price falls back to that of the plan.
  await both(next, { ...next, input: 1000n, write: 1000n }, other);
  expect(await shown(plain, "small")).not.toHaveProperty("next");
});

test("the row of a running request says why it has its prices, as its record does", async () => {
  const key = await keyWith("wholesale");
  const { promise: mayAnswer, resolve: answer } = Promise.withResolvers<void>();
  at.providers.local.answer = async (peer, request) => {
    await mayAnswer;
    await usual(peer, request);
  };
  const reply = chat(at.gateway, key, { model: "small" });
  const rows = async () =>
    (await at.gateway.store.requests.list({ account: key.account }, { limit: 9 })).rows;
  await untilAsync("it has a row", async () => (await rows()).length > 0);
  const [running] = await rows();
  expect([running?.status, running?.pricing?.plan]).toEqual(["running", "wholesale"]);
  answer();
  const { id } = await reply;
  const record = await at.gateway.store.requests.find(id);
  expect([record?.status, record?.pricing]).toEqual(["done", running?.pricing]);
  expect(record?.price).toEqual(running?.price);
});

test.each(["tiny", "small-2026-11-30"])("%s is charged and shown as its model", async (name) => {
  const key = await at.gateway.key({ models: ["small"] });
  expect(await charged(key, name)).toMatchObject({ model: "small" });
  expect((await shown(key, name))["id"]).toBe("small");
  const foreign = await at.gateway.key({ models: ["other"] });
  const refused = await chat(at.gateway, foreign, { model: name });
  expect(refused.body).toEqual({ error: { message: unknownModel[2], type: unknownModel[1] } });
});

test("a plan counts from the next request on, for a key that was used before", async () => {
  const key = await at.gateway.key();
  await charged(key, "other");
  const actor = { name: "tester", command: "test", at: Date.now() };
  await at.gateway.store.admin.setAccount(actor, key.account, { plan: "wholesale" });
  await at.gateway.toldOfChanges();
  expect(await charged(key, "small")).toMatchObject({ pricing: { plan: "wholesale" } });
});
