import { expect, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { refusal } from "../../support/provider/scriptedProvider.ts";

const ids = ["unknown", "dear", "cheap", "twin"] as const;
/** Thousandths of a rouble per 1,000,000 tokens. By three tokens of input for one of output `cheap` and `twin` cost 10,000. */
const costs: Readonly<Record<(typeof ids)[number], Record<string, number>>> = {
  unknown: {},
  dear: { rub_cost_input_per_1m: 3001, rub_cost_output_per_1m: 1000 },
  cheap: { rub_cost_input_per_1m: 1000, rub_cost_output_per_1m: 7000 },
  twin: { rub_cost_input_per_1m: 3000, rub_cost_output_per_1m: 1000 },
};

const at = openBefore(ids, (urls) => ({
  providers: urls,
  models: [
    {
      id: "small",
      settings: { order: "price" },
      routes: ids.map((provider) => ({
        provider,
        priority: 1,
        weight: provider === "dear" ? 1000 : 1,
        responses: false,
        ...costs[provider],
      })),
    },
  ],
}));

test('order = "price": the routes that cost the operator least come first', async () => {
  for (const id of ids) at.providers[id].answer = usual;
  const key = await at.gateway.key();
  const ask = async (user: string) =>
    expect((await chat(at.gateway, key, { user })).status).toBe(200);
  const asked = () => ids.map((id) => at.providers[id].requests.length);
  for (let session = 0; session < 16; session += 1) await ask(`session ${session}`);
  const [unknown, dear, cheap = 0, twin = 0] = asked();
  // Those that cost the same share the sessions.
  expect([unknown, dear, cheap + twin]).toEqual([0, 0, 16]);
  expect(Math.min(cheap, twin)).toBeGreaterThan(0);

  // Next come the dearer one, and then that without a known cost.
  at.providers.cheap.answer = refusal(500);
  at.providers.twin.answer = refusal(500);
  await ask("one");
  expect(asked().slice(0, 2)).toEqual([0, 1]);
});
