import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { recordBackup } from "../../src/store/open.ts";
import { chat } from "../support/gateway/chatCalls.ts";
import { costOf, oneModel } from "../support/gateway/gatewayConfig.ts";
import { openTestApp, rouble, type TestApp, type TestKey } from "../support/gateway/testApp.ts";
import { startReceiver, type WebhookReceiver } from "../support/notices/webhookReceiver.ts";
import { answered } from "../support/provider/chatAnswers.ts";
import {
  json,
  raw,
  startProvider,
  type ScriptedProvider,
} from "../support/provider/scriptedProvider.ts";
import { holdWrites } from "../support/store/gatewayDatabase.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import { freshDatabase } from "../support/servers/postgres.ts";
import { startTcpProxy } from "../support/servers/tcpProxy.ts";
import { scrape } from "../support/gateway/scrape.ts";
import { testSqlite } from "../support/testedEngines.ts";
import { until, untilAsync } from "../support/until.ts";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const actor = { name: "tester", command: "test", at: 0 };
const holdersTypes = ["account_low_holder", "key_expires_holder"];
const recordTypes = ["account_low", "key_expires", "audit_failed", ...holdersTypes];

let operator: WebhookReceiver;
let holder: WebhookReceiver;
let provider: ScriptedProvider;
let gateway: TestApp;

function configOf(notify: Record<string, string | number> = {}, sections = {}) {
  return oneModel(`http://127.0.0.1:${provider.port}/v1`, {
    notify: { webhook: operator.url, secret, low: 50, low_days: 0, ...notify },
    metrics: { listen: "127.0.0.1:0" },
    ...sections,
  });
}

beforeEach(async () => {
  operator = startReceiver();
  holder = startReceiver();
  provider = startProvider();
  gateway = await openTestApp(configOf());
  gateway.auditor.listenTo(provider);
});
afterEach(async () => {
  await gateway.close();
  provider.stop();
  operator.stop();
  holder.stop();
});

/** What a receiver got: the kind of each notice, its subject and its facts. */
function noticesAt({ received }: WebhookReceiver): Record<string, unknown>[] {
  return received.map(({ body }) => JSON.parse(body) as Record<string, unknown>);
}

/** Lets time pass and looks once. Resolves when what it sent has been recorded. */
async function look(afterMs = MINUTE_MS, at = gateway): Promise<void> {
  await at.advance(afterMs);
  await at.app.notices.look();
}

async function untilTold(count: number, receiver = operator): Promise<void> {
  await receiver.untilReceived(count);
  await untilAsync("the notices are recorded as told", async () => {
    const open = await gateway.store.notices.open(recordTypes);
    return open.every(({ told }) => told);
  });
}

async function untilGivenUp(): Promise<void> {
  const isGivenUp = () => gateway.log.some(({ event }) => event === "notice_not_delivered");
  await until("it was given up", isGivenUp);
}

/** Looks, and waits until the operator has one notice. */
async function toldOnce(): Promise<Record<string, unknown>[]> {
  await gateway.app.notices.look();
  await operator.untilReceived(1);
  return noticesAt(operator);
}

/** How many causes of this type the metrics count. */
async function counted(type: string): Promise<number | undefined> {
  return (await scrape(gateway.metricsUrl)).value("tollgate_notices", { type });
}

async function change(
  { account }: TestKey,
  kind: "credit" | "debit",
  amount: bigint,
): Promise<void> {
  await gateway.store.admin.changeBalance(actor, { account, kind, amount, ref: null, note: null });
  await gateway.toldOfChanges();
}

const credit = (key: TestKey, amount: bigint) => change(key, "credit", amount);

describe("a low account", () => {
  test("is told once, and again when it has become low again an hour later", async () => {
    const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
    const key = await gateway.key({ balance: 50n * rouble });
    await look();
    expect(operator.received).toEqual([]);
    provider.answer = answered();
    await chat(gateway, key);
    await gateway.records(key, 1);
    await look();
    await untilTold(1);
    expect(noticesAt(operator)).toMatchObject([
      {
        notice: "account_low",
        subject: key.account,
        data: { account: key.account, low_rub: "50" },
      },
    ]);
    expect(noticesAt(operator)[0]?.["text"]).toContain(`Account ${key.account} has 49.`);
    expect(await gateway.balance(key)).toBe(50n * rouble - cost);
    await look(2 * HOUR_MS);
    await credit(key, rouble);
    await look();
    await look(HOUR_MS);
    expect(operator.received).toHaveLength(1);
    await chat(gateway, key);
    await gateway.store.admin.setAccount(actor, key.account, { low: 60n * rouble });
    await look();
    await untilTold(2);
    expect(noticesAt(operator)[1]).toMatchObject({ data: { low_rub: "60" } });
  });

  test("that flaps is told once an hour", async () => {
    const key = await gateway.key({ balance: 49n * rouble });
    await look();
    await untilTold(1);
    for (let minute = 1; minute < 59; minute += 2) {
      await credit(key, 2n * rouble);
      await look();
      await change(key, "debit", 2n * rouble);
      await look();
    }
    expect(operator.received).toHaveLength(1);
    await look(2 * MINUTE_MS);
    await untilTold(2);
  });

  test("is told to its holder too, who gets nothing of other accounts", async () => {
    const key = await gateway.key({ balance: rouble });
    await gateway.key({ balance: rouble, account: "other" });
    await gateway.store.admin.setAccount(actor, key.account, { notifyUrl: holder.url });
    await look();
    await untilTold(2);
    await untilTold(1, holder);
    expect(noticesAt(holder)).toMatchObject([{ notice: "account_low", subject: key.account }]);
  });

  test("is one of many: the operator gets one notice, each holder his own", async () => {
    for (let number = 0; number < 12; number += 1) {
      const account = `account-${number}`;
      await gateway.key({ account, balance: rouble });
      if (number < 3)
        await gateway.store.admin.setAccount(actor, account, { notifyUrl: holder.url });
    }
    await look();
    await untilTold(1);
    await untilTold(3, holder);
    expect(noticesAt(operator)).toMatchObject([
      { notice: "account_low", subject: null, data: { accounts: 12 } },
    ]);
    await look();
    expect(operator.received).toHaveLength(1);
  });

  test("that nobody took notice of is told again an hour later", async () => {
    operator.statuses = [410];
    await gateway.key({ balance: rouble });
    await look();
    await operator.untilReceived(1);
    await untilGivenUp();
    await look();
    expect(operator.received).toHaveLength(1);
    await look(HOUR_MS);
    await untilTold(2);
  });

  test("is told again to the one who did not get it, and not to the other one", async () => {
    operator.statuses = [410];
    const key = await gateway.key({ balance: rouble });
    await gateway.store.admin.setAccount(actor, key.account, { notifyUrl: holder.url });
    await look();
    await operator.untilReceived(1);
    await holder.untilReceived(1);
    await untilGivenUp();
    await look(HOUR_MS);
    await untilTold(2);
    expect(holder.received).toHaveLength(1);
  });

  test("with an address that cannot be used is told to the operator, and the log says so once", async () => {
    const key = await gateway.key({ balance: rouble });
    await gateway.store.admin.setAccount(actor, key.account, { notifyUrl: "mailto:a@example.com" });
    await look();
    await untilTold(1);
    await look();
    const lines = gateway.log.filter(({ event }) => event === "account_address_unusable");
    expect(lines).toHaveLength(1);
  });

  test("is told of its pace", async () => {
    await gateway.reload(configOf({ low: 0, low_days: 355 }));
    provider.answer = answered();
    const cost = costOf({ prompt: 20, completion: 7, cached: 5, cacheWrite: 3 });
    // The charge of today is that of six to seven days, by the hour. So what is left lasts for 300 to 350, 360 to 420 days.
    const low = await gateway.key({ balance: cost + 50n * cost });
    const rich = await gateway.key({ balance: cost + 60n * cost });
    for (const key of [low, rich]) {
      await chat(gateway, key);
      await gateway.records(key, 1);
    }
    await look();
    await untilTold(1);
    const notices = noticesAt(operator) as { data: { days_left: number } }[];
    expect(notices).toMatchObject([{ subject: low.account, data: { low_rub: null } }]);
    expect(notices[0]?.data.days_left).toBeWithin(300, 350.1);
  });
});

test("a key is told before it expires, unless another one replaces it or it lives for a short time", async () => {
  const nowMs = gateway.clock.epochMs();
  const inDays = (days: number) => nowMs + days * DAY_MS;
  const key = await gateway.key({ balance: 100n * rouble, expiresAt: inDays(10) });
  await gateway.key({ balance: 100n * rouble, expiresAt: inDays(6) });
  await gateway.key({ balance: 100n * rouble, expiresAt: inDays(30) });
  const rotated = await gateway.key({ balance: 100n * rouble });
  await gateway.rotate(rotated, 5 * DAY_MS + HOUR_MS);
  await gateway.store.admin.setAccount(actor, key.account, { notifyUrl: holder.url });
  await look();
  expect(operator.received).toEqual([]);
  await look(5 * DAY_MS);
  await untilTold(1);
  await untilTold(1, holder);
  const expected = {
    notice: "key_expires",
    subject: key.id,
    data: { account: key.account, expires_at: new Date(inDays(10)).toISOString() },
  };
  expect(noticesAt(operator)).toMatchObject([
    { ...expected, text: expect.stringContaining("tollgate keys rotate") },
  ]);
  expect(noticesAt(holder)).toMatchObject([
    { ...expected, text: expect.stringContaining("Ask for a new key") },
  ]);
});

test("a provider that refuses its key is told once an hour", async () => {
  const key = await gateway.key();
  provider.answer = raw("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n");
  for (const passedMs of [0, 6 * MINUTE_MS, 6 * MINUTE_MS]) {
    await gateway.advance(passedMs);
    expect((await chat(gateway, key)).status).toBe(502);
    await gateway.app.notices.look();
  }
  await operator.untilReceived(1);
  expect(noticesAt(operator)).toMatchObject([{ notice: "provider_refused", subject: "local" }]);
  await gateway.advance(HOUR_MS);
  await chat(gateway, key);
  await gateway.app.notices.look();
  await operator.untilReceived(2);
});

test("a provider that wants something of the organization is told", async () => {
  const error = { message: "Your organization must be verified to stream this model." };
  provider.answer = json({ error }, { status: 400 });
  expect((await chat(gateway, await gateway.key())).status).toBe(502);
  expect(await toldOnce()).toMatchObject([{ notice: "organization_refused", subject: "local" }]);
  expect(await counted("organization_refused")).toBe(1);
});

describe("a route that serves what costs more than the price is for", () => {
  const served = (model = "small") => ({ subject: `local/${model}`, notice: "service_expensive" });

  test("is told once an hour, while it does", async () => {
    const key = await gateway.key();
    provider.answer = answered({ service_tier: "priority" });
    for (const passedMs of [0, MINUTE_MS, 50 * MINUTE_MS]) {
      await gateway.advance(passedMs);
      await chat(gateway, key);
      await gateway.app.notices.look();
    }
    await operator.untilReceived(1);
    expect(noticesAt(operator)).toMatchObject([
      {
        ...served(),
        text: expect.stringContaining("service_tier priority"),
        data: { provider: "local", model: "small", services: "service_tier priority" },
      },
    ]);
    expect(await counted("service_expensive")).toBe(1);
    await gateway.advance(10 * MINUTE_MS);
    await gateway.app.notices.look();
    await operator.untilReceived(2);
    await gateway.advance(HOUR_MS);
    await gateway.app.notices.look();
    expect(await counted("service_expensive")).toBe(0);
    expect(operator.received).toHaveLength(2);
  });

  test("shares its notice with many others", async () => {
    const models = Array.from({ length: 11 }, (_, index) => `model-${index}`);
    await gateway.close();
    const { providers, sections = {} } = configOf();
    gateway = await openTestApp({
      providers,
      models: models.map((id) => ({ id, routes: [{ provider: "local" }] })),
      sections,
    });
    gateway.auditor.listenTo(provider);
    const key = await gateway.key();
    provider.answer = answered({ service_tier: "priority" });
    for (const model of models) await chat(gateway, key, { model });
    expect(await toldOnce()).toMatchObject([{ subject: null, data: { routes: 11 } }]);
  });
});

testSqlite("a database that takes no charges is told", async () => {
  const key = await gateway.key();
  provider.answer = answered();
  await using held = await holdWrites(gateway.place);
  const asked = chat(gateway, key);
  await until("the writer is blocked", () => gateway.app.gateway.writer.blockedBy !== undefined);
  expect(await toldOnce()).toMatchObject([{ notice: "store_blocked", data: { reason: "busy" } }]);
  expect(await counted("store_blocked")).toBe(1);
  await held.release();
  await asked;
});

testSqlite("an audit that found problems is told, and no more after one without", async () => {
  const database = { path: gateway.path, durability: "process" } as const;
  await recordBackup(database, true, gateway.clock.epochMs());
  await look();
  await untilTold(1);
  expect(noticesAt(operator)).toMatchObject([{ notice: "audit_failed", subject: null }]);
  expect(await counted("audit_failed")).toBe(1);
  // The next night.
  await recordBackup(database, true, gateway.clock.epochMs());
  await look(24 * HOUR_MS);
  await untilTold(2);
  await recordBackup(database, false, gateway.clock.epochMs());
  await look();
  expect(await counted("audit_failed")).toBe(0);
});

describePostgres("a replica without requests", () => {
  test("tells that its server cannot be reached", async () => {
    await using database = await freshDatabase();
    const url = new URL(database.url);
    await using proxy = await startTcpProxy(Number(url.port));
    url.port = String(proxy.port);
    const replica = await openTestApp(configOf({}, { database: { url: url.href } }));
    proxy.hang();
    await until(
      "its lease has ended",
      () => replica.app.notices.counts().store_blocked === 1,
      20_000,
    );
    await replica.app.notices.look();
    await operator.untilReceived(1);
    expect(noticesAt(operator)).toMatchObject([
      { notice: "store_blocked", data: { reason: "unreachable" } },
    ]);
    proxy.reset();
    proxy.pass();
    await until("it serves again", () => replica.app.notices.counts().store_blocked === 0, 20_000);
    await replica.close();
  }, 60_000);
});

describePostgres("several replicas and a restart", () => {
  test("tell a cause once", async () => {
    await using database = await freshDatabase();
    const config = configOf({}, { database: { url: database.url } });
    const one = await openTestApp(config);
    const two = await openTestApp(config);
    await one.key({ balance: rouble });
    await Promise.all([look(0, one), look(0, two)]);
    await untilAsync("it is told", async () => {
      const [open] = await one.store.notices.open(["account_low"]);
      return open?.told === true;
    });
    await one.close();
    await two.close();
    const three = await openTestApp(config);
    await look(HOUR_MS, three);
    await three.close();
    expect(noticesAt(operator)).toHaveLength(1);
  });
});
