import { describe, expect, test } from "bun:test";
import { issueVoucher, issueVouchers } from "../../support/store/vouchers.ts";
import { fillStore } from "../../support/store/fullStore.ts";
import {
  type ExpectedError,
  badKey,
  call,
  chat,
  expectRefusal,
  openChat,
  tooOften,
  unwritable,
} from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { scrape } from "../../support/gateway/scrape.ts";
import { rouble } from "../../support/gateway/testApp.ts";
import { mistyped, redeem, unknownCode } from "../../support/gateway/voucherCalls.ts";
import { helloEvent, stopEvent, usual } from "../../support/provider/chatAnswers.ts";
import { piece, raw, streamEnd, streamHead } from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";
import { testSqlite } from "../../support/testedEngines.ts";
import { holdWrites, storedText } from "../../support/store/gatewayDatabase.ts";

const at = openOneModelBefore({ metrics: { listen: "127.0.0.1:0" } });
const admin = () => at.gateway.store.admin;
const now = () => ({ name: "tester", command: "test", at: at.gateway.clock.epochMs() });
const path = "/v1/vouchers/redeem";
const HOUR_MS = 3_600_000;
/** The time that a redemption waits for the store. */
const PATIENCE_MS = 10_000;

const invalid = (message: string): ExpectedError => [400, "invalid_request_error", message];
const notFound: ExpectedError = [404, "invalid_request_error", "voucher not found"];
const typingError = invalid("code has a typing error: compare each character with the voucher");

const voucherOf = (amount = 500n * rouble, expiresAt?: number) =>
  issueVoucher(at.gateway.store, { amount, ...(expiresAt === undefined ? {} : { expiresAt }) });

describe("a code", () => {
  test("credits its account once, also when it is sent again", async () => {
    const key = await at.gateway.key({ balance: 0n, overdraft: 7n * rouble });
    const voucher = await voucherOf(12_500_000_000n);
    const answer = (applied: boolean) => ({
      object: "voucher_redemption",
      voucher: voucher.publicId,
      applied,
      amount_rub: "12.5",
      balance_rub: "12.5",
      held_rub: "0",
      available_rub: "19.5",
    });
    for (const applied of [true, false, false]) {
      const reply = await redeem(at.gateway, key, voucher.code);
      expect([reply.status, reply.body]).toEqual([200, answer(applied)]);
      expect(reply.headers.get("cache-control")).toBe("no-store");
    }
    const other = await at.gateway.key({ account: key.account, balance: 0n });
    expect((await redeem(at.gateway, other, voucher.code)).body).toEqual(answer(false));
    expect(await at.gateway.balance(key)).toBe(12_500_000_000n);
  });

  test.each<[string, (code: string) => string]>([
    ["in lower case", (code) => code.toLowerCase()],
    ["without hyphens", (code) => code.replaceAll("-", "")],
    ["with spaces", (code) => `  ${code.replaceAll("-", " ")}\n`],
    ["with dashes of a messenger", (code) => code.replaceAll("-", " \u2014 ")],
    ["with letters for digits", (code) => code.replaceAll("0", "o").replaceAll("1", "l")],
  ])("may be typed %s", async (_, typed) => {
    const key = await at.gateway.key({ balance: 0n });
    const { code } = await voucherOf();
    expect((await redeem(at.gateway, key, typed(code))).body).toMatchObject({ applied: true });
  });

  test("that no account can redeem gets one answer, whatever the reason", async () => {
    const key = await at.gateway.key({ balance: 0n });
    const [revoked, expired, taken] = [
      await voucherOf(),
      await voucherOf(5n, now().at + 1000),
      await voucherOf(),
    ];
    await admin().revokeVoucher(now(), revoked.publicId);
    await redeem(at.gateway, await at.gateway.key(), taken.code);
    at.gateway.clock.advance(1000);
    for (const code of [unknownCode(), revoked.code, expired.code, taken.code])
      expectRefusal(await redeem(at.gateway, key, code), notFound);
    expect(await at.gateway.balance(key)).toBe(0n);
  });

  test.each<[string, string | object, ExpectedError]>([
    ["no code", {}, invalid("code is required")],
    ["an empty code", { code: "" }, invalid("code must not be empty")],
    ["a number", { code: 5 }, invalid("code must be a string")],
    ["another field", { code: "A", x: 1 }, invalid("only the field code is accepted")],
    ["another case", { Code: "A" }, invalid("only the field code is accepted")],
    ["the code twice", '{"code":"A","code":"B"}', invalid("code stands twice")],
    ["no JSON", "code=A", invalid("body is not valid JSON")],
    ["a list", "[]", invalid("body must be a JSON object")],
    ["a long body", `{"code":"${"A".repeat(5000)}"}`, invalid("request body is too large")],
    ["a short code", { code: "7Q2MV" }, typingError],
    ["a letter that no code has", { code: unknownCode().replace(/^./, "U") }, typingError],
  ])("is refused in a body with %s", async (_, body, refusal) => {
    const key = await at.gateway.key();
    expectRefusal(await call(at.gateway, key, { path, body }), refusal);
  });

  test("needs a valid key of an enabled account", async () => {
    const { code } = await voucherOf();
    const key = await at.gateway.key();
    expectRefusal(await redeem(at.gateway, undefined, code), badKey);
    await admin().setDisabled(now(), key.account, true);
    await at.gateway.toldOfChanges();
    expectRefusal(await redeem(at.gateway, key, code), badKey);
    await admin().setDisabled(now(), key.account, false);
    await at.gateway.toldOfChanges();
    expect((await redeem(at.gateway, key, code)).status).toBe(200);
  });

  test("of more than the balance can take is refused, and stays open", async () => {
    const key = await at.gateway.key({ overdraft: 9_223_372_036_854_775_807n, balance: 0n });
    const { code } = await voucherOf();
    const refusal = invalid("the balance cannot take this amount");
    expectRefusal(await redeem(at.gateway, key, code), refusal);
    expect((await redeem(at.gateway, await at.gateway.key(), code)).body).toMatchObject({
      applied: true,
    });
  });
});

describe("the credit", () => {
  test("pays for the next request", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key({ balance: 1n });
    expect((await chat(at.gateway, key, { max_tokens: 50 })).status).toBe(402);
    await redeem(at.gateway, key, (await voucherOf()).code);
    expect((await chat(at.gateway, key, { max_tokens: 50 })).status).toBe(200);
  });

  test("is in the balance while requests of the account are open, and stays there when they end", async () => {
    const key = await at.gateway.key();
    const go = Promise.withResolvers<void>();
    at.provider.answer = async (peer, request) => {
      await raw(streamHead, piece(helloEvent))(peer, request);
      await go.promise;
      await raw(piece(stopEvent), piece("[DONE]"), streamEnd)(peer, request);
    };
    const open = await openChat(at.gateway, key, { stream: true });
    await open.seen("Hello");
    const { body } = await redeem(at.gateway, key, (await voucherOf()).code);
    expect(body).toMatchObject({ applied: true, balance_rub: "600" });
    expect(body).not.toMatchObject({ held_rub: "0" });
    go.resolve();
    await until("the stream ends", () => open.isOver);
    const [record] = await at.gateway.records(key, 1);
    expect(await at.gateway.balance(key)).toBe(600n * rouble - (record?.charge ?? 0n));
  });

  test("is made once when two accounts send the code fifty times at once", async () => {
    const keys = [
      await at.gateway.key({ balance: 0n }),
      await at.gateway.key({ balance: 0n }),
    ] as const;
    const { code } = await voucherOf();
    const replies = await Promise.all(
      Array.from({ length: 50 }, (_, index) => redeem(at.gateway, keys[index % 2 ? 1 : 0], code)),
    );
    const applied = replies.filter(({ text }) => text.includes('"applied":true'));
    const repeated = replies.filter(({ text }) => text.includes('"applied":false'));
    const refused = replies.filter(({ status }) => status === 404 || status === 429);
    expect([applied.length, repeated.length, refused.length]).toEqual([1, 24, 25]);
    expect((await at.gateway.balance(keys[0])) + (await at.gateway.balance(keys[1]))).toBe(
      500n * rouble,
    );
  });

  test("of each of many codes at once is made once, beside charges", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key({ balance: 10n * rouble });
    const issued = await issueVouchers(at.gateway.store, 20, { amount: rouble });
    const codes = issued.map(({ code }) => code);
    const replies = await Promise.all(
      codes.flatMap((code) => [
        redeem(at.gateway, key, code),
        chat(at.gateway, key),
        redeem(at.gateway, key, code),
      ]),
    );
    expect(replies.map(({ status }) => status)).toEqual(replies.map(() => 200));
    const records = await at.gateway.records(key, 20);
    const charged = records.reduce((sum, { charge }) => sum + charge, 0n);
    expect(await at.gateway.balance(key)).toBe(30n * rouble - charged);
  });
});

describe("wrong codes", () => {
  test("are limited to ten in an hour for a key; then it may try no code, and the others of its account may", async () => {
    const key = await at.gateway.key({ balance: 0n });
    const sibling = await at.gateway.key({ account: key.account, balance: 0n });
    const { code } = await voucherOf();
    for (let count = 0; count < 10; count += 1) {
      expectRefusal(await redeem(at.gateway, key, unknownCode()), notFound);
      at.gateway.clock.advance(60_000);
    }
    const successor = await at.gateway.rotate(key, HOUR_MS);
    await at.gateway.toldOfChanges();
    for (const sender of [key, successor]) {
      const reply = await redeem(at.gateway, sender, code);
      expectRefusal(reply, tooOften);
      const retryAfter = Number(reply.headers.get("retry-after"));
      expect(retryAfter).toBeGreaterThan(49 * 60);
      expect(retryAfter).toBeLessThanOrEqual(50 * 60);
    }
    expect((await redeem(at.gateway, sibling, code)).body).toMatchObject({ applied: true });
    at.gateway.clock.advance(50 * 60_000);
    expectRefusal(await redeem(at.gateway, successor, unknownCode()), notFound);
    expectRefusal(await redeem(at.gateway, successor, unknownCode()), tooOften);
  });

  test("are limited to thirty in an hour for an account, however many keys it has", async () => {
    const first = await at.gateway.key({ balance: 0n });
    const { account } = first;
    const keys = [first];
    while (keys.length < 5) keys.push(await at.gateway.key({ account, balance: 0n }));
    const statuses: number[] = [];
    for (const key of keys)
      for (let count = 0; count < 9; count += 1)
        statuses.push((await redeem(at.gateway, key, unknownCode())).status);
    expect(statuses).toEqual([...Array<number>(30).fill(404), ...Array<number>(15).fill(429)]);
    const { code } = await voucherOf();
    expectRefusal(await redeem(at.gateway, first, code), tooOften);
    expect((await redeem(at.gateway, await at.gateway.key(), code)).status).toBe(200);
  });

  test("at once are limited, too", async () => {
    const key = await at.gateway.key();
    const replies = await Promise.all(
      Array.from({ length: 50 }, () => redeem(at.gateway, key, unknownCode())),
    );
    const count = (status: number) => replies.filter((reply) => reply.status === status).length;
    expect([count(404), count(429)]).toEqual([10, 40]);
  });

  test("do not include typing errors, repeats and right codes", async () => {
    const key = await at.gateway.key();
    const { code } = await voucherOf();
    await redeem(at.gateway, key, code);
    for (let place = 0; place < 30; place += 1) {
      expectRefusal(await redeem(at.gateway, key, mistyped(code, place)), typingError);
      expect((await redeem(at.gateway, key, code)).status).toBe(200);
    }
    expectRefusal(await redeem(at.gateway, key, unknownCode()), notFound);
  });
});

describe("while the store cannot be written", () => {
  test("a code waits for a lock that begins then, and is redeemed once", async () => {
    const key = await at.gateway.key({ balance: 0n });
    const { code } = await voucherOf();
    await using held = await holdWrites(at.gateway.place);
    const { writer } = at.gateway.app.gateway;
    const reply = redeem(at.gateway, key, code);
    await until("the redemption is queued", () => writer.queued > 0);
    await held.release();
    expect((await reply).body).toMatchObject({ applied: true, balance_rub: "500" });
  });

  testSqlite(
    "a code is refused on a full disk, and can be redeemed later",
    async () => {
      const key = await at.gateway.key({ balance: 0n });
      const [open, redeemed] = [await voucherOf(), await voucherOf(rouble)];
      await redeem(at.gateway, key, redeemed.code);
      const { writer } = at.gateway.app.gateway;
      const empty = fillStore(at.gateway.path);
      try {
        const waiting = redeem(at.gateway, key, open.code);
        await until("the disk is full", () => writer.blockedBy === "full");
        at.gateway.clock.advance(PATIENCE_MS);
        expectRefusal(await waiting, unwritable);
        expectRefusal(await redeem(at.gateway, key, open.code), unwritable);
        expectRefusal(await redeem(at.gateway, key, unknownCode()), notFound);
        expect((await redeem(at.gateway, key, redeemed.code)).body).toMatchObject({
          applied: false,
        });
      } finally {
        empty();
      }
      await until("the disk has room", () => writer.blockedBy === undefined);
      expect((await redeem(at.gateway, key, open.code)).body).toMatchObject({ applied: true });
      expect(await at.gateway.balance(key)).toBe(501n * rouble);
    },
    30_000,
  );
});

test("a code is in no log line, metric or row of the store, and neither is a mistyped one", async () => {
  const key = await at.gateway.key();
  const { code } = await voucherOf();
  const codes = [code, mistyped(code, 3), unknownCode()];
  const replies = [];
  for (const one of codes) replies.push(await redeem(at.gateway, key, one));
  replies.push(await call(at.gateway, key, { path, body: { code, also: code } }));
  replies.push(await call(at.gateway, key, { path, body: { [code]: 1 } }));
  expect(replies.map(({ status }) => status)).toEqual([200, 400, 404, 400, 400]);
  const stored = await storedText(at.gateway.place);
  const { text } = await scrape(at.gateway.metricsUrl);
  const written = [at.gateway.logText(), text, stored, ...replies.map((reply) => reply.text)];
  for (const one of codes.flatMap((typed) => [typed, typed.replaceAll("-", "")]))
    expect(written.filter((place) => place.includes(one))).toEqual([]);
  expect(text).toContain('tollgate_requests_refused_total{endpoint="vouchers",status="404"}');
});

test("a code that a client puts into a path or a model is not in the log", async () => {
  const key = await at.gateway.key();
  const { code } = await voucherOf();
  const bare = code.replaceAll("-", "");
  for (const wrong of [`${path}/${code}`, `${path}/${bare.toLowerCase()}`, `/v1/models/${bare}/x`])
    expect((await call(at.gateway, key, { path: wrong, method: "GET" })).status).toBe(404);
  await call(at.gateway, key, {
    path: "/v1/chat/completions",
    body: { model: code, messages: [{ role: "user", content: "hi" }] },
  });
  const log = at.gateway.logText();
  expect(log).toContain(`"path":"${path}/***"`);
  for (const one of [code, bare, bare.toLowerCase()]) expect(log).not.toContain(one);
});

test("an hour without a wrong code forgets the account", async () => {
  const key = await at.gateway.key();
  for (let count = 0; count < 9; count += 1) await redeem(at.gateway, key, unknownCode());
  at.gateway.clock.advance(HOUR_MS);
  for (let count = 0; count < 10; count += 1)
    expectRefusal(await redeem(at.gateway, key, unknownCode()), notFound);
  expectRefusal(await redeem(at.gateway, key, unknownCode()), tooOften);
});
