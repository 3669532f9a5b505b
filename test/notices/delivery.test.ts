import { afterEach, describe, expect, test } from "bun:test";
import { openDelivery, webhooks } from "../support/notices/deliveryUnderTest.ts";
import { startReceiver, type WebhookReceiver } from "../support/notices/webhookReceiver.ts";
import { until } from "../support/until.ts";

const receivers: WebhookReceiver[] = [];
const open = (statuses: (number | undefined)[] = []): WebhookReceiver => {
  const receiver = startReceiver();
  receiver.statuses = statuses;
  receivers.push(receiver);
  return receiver;
};
afterEach(() => {
  for (const receiver of receivers.splice(0)) receiver.stop();
});

const times = (count: number, status: number | undefined) =>
  Array.from({ length: count }, () => status);
const silent = () => times(2000, undefined);

describe("a receiver that never answers", () => {
  test("has its attempts ended, and delays no other", async () => {
    const [slow, quick] = [open(silent()), open()];
    const delivery = openDelivery({ attemptTimeoutsMs: { webhook: 200, email: 0 } });
    const settled = delivery.send(webhooks(slow.url, quick.url));
    await quick.untilReceived(1);
    expect(slow.received.length).toBeLessThan(7);
    // At least one recipient took it.
    expect(await settled).toBe(true);
    expect(slow.received).toHaveLength(7);
    expect(quick.received).toHaveLength(1);
    expect(delivery.lines()).toMatchObject([
      { level: "warn", address: new URL(slow.url).host, outcome: "timeout", count: 1, total: 2 },
    ]);
  });

  test("gets one attempt at a time, while others get theirs", async () => {
    const [slow, quick] = [open(silent()), open()];
    const delivery = openDelivery({ closeTimeoutMs: 1 });
    for (let sent = 0; sent < 30; sent += 1) void delivery.send(webhooks(slow.url));
    for (let sent = 0; sent < 30; sent += 1)
      expect(await delivery.send(webhooks(quick.url))).toBe(true);
    expect(slow.received).toHaveLength(1);
    await delivery.delivery.close();
  });

  test("leaves a thousand notices waiting, and further ones are lost", async () => {
    const slow = open(silent());
    const delivery = openDelivery({ closeTimeoutMs: 1 });
    const results: boolean[] = [];
    const send = () =>
      delivery.delivery.send(notice, webhooks(slow.url), (isDelivered) =>
        results.push(isDelivered),
      );
    // One of them is on its way.
    for (let sent = 0; sent < 1001; sent += 1) send();
    expect(results).toEqual([]);
    send();
    expect(results).toEqual([false]);
    expect(delivery.lines()).toMatchObject([{ level: "warn", problem: "too many notices wait" }]);
    await slow.untilReceived(1);
    await delivery.delivery.close();
    expect(results).toEqual(Array.from({ length: 1002 }, () => false));
    expect(delivery.lines()[1]).toEqual({
      level: "warn",
      event: "notice_not_delivered",
      msg: "a notice was not delivered",
      problem: "the gateway stops",
      count: 1001,
    });
  });
});

const notice = {
  type: "test",
  subject: undefined,
  atMs: 0,
  text: "This is a test.",
  data: {},
} as const;

describe("close", () => {
  test("makes a last attempt at what is between two attempts", async () => {
    const [late, failing] = [open([500]), open(times(20, 500))];
    let paused = 0;
    const pause = () => {
      paused += 1;
      return () => {};
    };
    const delivery = openDelivery({ pause, closeTimeoutMs: 60_000 });
    const results = [delivery.send(webhooks(late.url)), delivery.send(webhooks(failing.url))];
    await until("both are between two attempts", () => paused === 2);
    await delivery.delivery.close();
    expect(await Promise.all(results)).toEqual([true, false]);
    expect([late.received.length, failing.received.length]).toEqual([2, 2]);
    const warnings = delivery.lines().filter(({ level }) => level === "warn");
    expect(warnings).toMatchObject([{ problem: "the gateway stops", count: 1 }]);
  });

  test("ends an attempt in progress, and what is sent later is lost", async () => {
    const slow = open(silent());
    const delivery = openDelivery({ closeTimeoutMs: 20 });
    const result = delivery.send(webhooks(slow.url));
    await slow.untilReceived(1);
    await delivery.delivery.close();
    await delivery.delivery.close();
    expect(await result).toBe(false);
    expect(await delivery.send(webhooks(slow.url))).toBe(false);
    expect(slow.received).toHaveLength(1);
  });

  test("of a delivery without notices is quick and quiet", async () => {
    const delivery = openDelivery({ closeTimeoutMs: 60_000 });
    expect(await delivery.send([])).toBe(false);
    await delivery.delivery.close();
    expect(delivery.lines()).toEqual([]);
  });
});

test("many notices to many receivers all arrive, each once", async () => {
  const targets = Array.from({ length: 40 }, () => open([503]));
  const delivery = openDelivery();
  const urls = targets.map(({ url }) => url);
  const settled = await Promise.all(
    Array.from({ length: 5 }, () => delivery.send(webhooks(...urls))),
  );
  expect(settled).toEqual(Array.from({ length: 5 }, () => true));
  for (const { received } of targets) {
    expect(received).toHaveLength(6);
    expect(new Set(received.map(({ headers }) => headers["webhook-id"])).size).toBe(5);
  }
  await until("five lines", () => delivery.lines().length === 5);
});
