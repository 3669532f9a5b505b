import { expect, test } from "bun:test";
import { answered, helloEvent } from "../../support/provider/chatAnswers.ts";
import { ask } from "../../support/gateway/chatCalls.ts";
import { costOf } from "../../support/gateway/gatewayConfig.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import { piece, raw, streamHead } from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore();
const started = 100_000_000_000n;

const JSON_CLIENTS = 300;
const STREAM_CLIENTS = 200;
const CLIENTS = JSON_CLIENTS + STREAM_CLIENTS;
/** So many JSON answers are read to their end for nobody; the others are given up. */
const DISCONNECTED_MAX = 256;
const RELEASED_WITHIN_MS = 5000;

const exact = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
/** "hello" is 2 tokens, and so is "Hello". */
const promptOnly = costOf({ prompt: 2, completion: 0 });
const promptAndHello = costOf({ prompt: 2, completion: 2 });

test("500 clients that leave at once are charged what is due, and nothing is held any more after 5 s", async () => {
  const left = Promise.withResolvers<void>();
  at.provider.answer = async (peer, request) => {
    if (request.json["stream"] === true) return raw(streamHead, piece(helloEvent))(peer, request);
    await left.promise;
    return answered()(peer, request);
  };
  const key = at.gateway.key();
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, async (_, index) => {
      const client = await connectRaw(at.gateway.port);
      const stream = index >= JSON_CLIENTS;
      // Each holds a five-hundredth of the balance at most.
      client.send(chatBytes(key.key, JSON.stringify(ask({ stream, max_tokens: 500 }))));
      if (stream) await client.seen("Hello");
      return client;
    }),
  );
  await until("the provider has them all", () => at.provider.requests.length === CLIENTS);
  const list = () => at.gateway.store.requests.list({ account: key.account, limit: CLIENTS + 1 });
  await until("all are in the books", () => list().length === CLIENTS);

  const leftMs = performance.now();
  for (const client of clients) client.reset();
  const { holds, inFlight } = at.gateway.app.gateway;
  await until(
    "no more than may be are read on",
    () => inFlight.disconnectedCount === DISCONNECTED_MAX,
  );
  left.resolve();
  await until("nothing is held", () => holds.total() === 0n, RELEASED_WITHIN_MS);
  expect(performance.now() - leftMs).toBeLessThan(RELEASED_WITHIN_MS);

  const charges = Map.groupBy(
    list(),
    ({ status, stream, charge }) => `${status} ${stream} ${charge}`,
  );
  expect(Object.fromEntries([...charges].map(([what, rows]) => [what, rows.length]))).toEqual({
    [`cancelled false ${exact}`]: DISCONNECTED_MAX,
    [`cancelled false ${promptOnly}`]: JSON_CLIENTS - DISCONNECTED_MAX,
    [`cancelled true ${promptAndHello}`]: STREAM_CLIENTS,
  });
  const all = list().reduce((sum, { charge }) => sum + charge, 0n);
  expect(at.gateway.balance(key)).toBe(started - all);
  expect(inFlight.disconnectedCount).toBe(0);
}, 30_000);
