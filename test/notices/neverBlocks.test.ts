import { expect, test } from "bun:test";
import { usual } from "../support/provider/chatAnswers.ts";
import { chat } from "../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../support/gateway/gatewayUnderTest.ts";
import { accountLow, openDelivery, webhooks } from "../support/notices/deliveryUnderTest.ts";
import { startReceiver } from "../support/notices/webhookReceiver.ts";

const opened = openOneModelBefore();

const ROUNDS = 6;
const REQUESTS = 40;
const RECEIVERS = 50;
const NOTICES_EACH = 10;
const ATTEMPT_MS = 20;

/** The median time of the requests of one round, in ms. They are sent one after the other. */
async function medianMs(ask: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let sent = 0; sent < REQUESTS; sent += 1) {
    const startedMs = performance.now();
    await ask();
    times.push(performance.now() - startedMs);
  }
  return times.sort((one, other) => one - other)[REQUESTS / 2] ?? Number.NaN;
}

test("requests are answered as fast while all receivers of notices hang", async () => {
  const { gateway, provider } = opened;
  provider.answer = usual;
  const key = await gateway.key();
  const ask = async () => expect((await chat(gateway, key)).status).toBe(200);
  const receiver = startReceiver();
  receiver.statuses = Array.from({ length: 10_000 }, () => undefined);
  const urls = Array.from({ length: RECEIVERS }, (_, at) => `${receiver.url}/${at}`);
  // First attempts end and begin while the requests are measured. None is made again.
  const edges = {
    attemptTimeoutsMs: { webhook: ATTEMPT_MS, email: 0 },
    pause: () => () => {},
    closeTimeoutMs: 1,
  };
  const usualMs: number[] = [];
  const hangingMs: number[] = [];
  await medianMs(ask);
  for (let round = 0; round < ROUNDS; round += 1) {
    usualMs.push(await medianMs(ask));
    const { delivery } = openDelivery(edges);
    let settled = 0;
    for (let sent = 0; sent < NOTICES_EACH; sent += 1)
      delivery.send(accountLow(), webhooks(...urls), () => (settled += 1));
    hangingMs.push(await medianMs(ask));
    expect(settled).toBe(0);
    await delivery.close();
    expect(settled).toBe(NOTICES_EACH);
  }
  expect(receiver.received.length).toBeGreaterThanOrEqual(16 * ROUNDS);
  receiver.stop();
  // The quickest rounds: what else the machine does makes rounds slower, and never quicker. A request that waited for an
  // attempt would take as long as that. The attempts themselves share the thread with the requests.
  expect(Math.min(...hangingMs)).toBeLessThan(Math.min(...usualMs) * 2 + ATTEMPT_MS / 4);
});
