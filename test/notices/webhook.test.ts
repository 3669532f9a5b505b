import { afterEach, describe, expect, test } from "bun:test";
import { rootCertificates } from "node:tls";
import { Webhook } from "standardwebhooks";
import {
  accountRecipient,
  accountUrlProblem,
  accountWebhookSecret,
  operatorRecipients,
} from "../../src/notices/recipients.ts";
import {
  accountLow,
  notifyWith,
  openDelivery,
  secret,
  webhooks,
} from "../support/notices/deliveryUnderTest.ts";
import { startReceiver, type WebhookReceiver } from "../support/notices/webhookReceiver.ts";
import {
  startRawServer,
  testAuthority,
  type CertificateName,
} from "../support/provider/rawServer.ts";

const receivers: WebhookReceiver[] = [];
const open = (...options: Parameters<typeof startReceiver>): WebhookReceiver => {
  const receiver = startReceiver(...options);
  receivers.push(receiver);
  return receiver;
};
afterEach(() => {
  for (const receiver of receivers.splice(0)) receiver.stop();
});

const WARNING = "a notice was not delivered";
const hostOf = ({ url }: WebhookReceiver) => new URL(url).host;

describe("a webhook", () => {
  test("is JSON, signed as Standard Webhooks says", async () => {
    const receiver = open();
    const delivery = openDelivery();
    expect(await delivery.send(webhooks(`${receiver.url}?room=a%20b`))).toBe(true);
    const [request] = receiver.received;
    if (request === undefined) throw new Error("nothing came");
    const { path, headers, body } = request;
    expect(path).toBe("/hook?room=a%20b");
    expect(headers["content-type"]).toBe("application/json");
    expect(headers["webhook-id"]).toMatch(/^ntc_[0-9a-z]{20}$/);
    expect(new Webhook(secret).verify(body, headers)).toEqual({
      notice: "account_low",
      subject: "alice",
      timestamp: "2026-11-28T12:00:00.000Z",
      text: accountLow().text,
      data: { account: "alice", balance_rub: "49.5", days: 2, empty_at: null },
    });
    const otherSecret = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;
    expect(() => new Webhook(otherSecret).verify(body, headers)).toThrow("No matching signature");
    for (const [altered, changes] of [
      [body.replace("49.5", "99.5"), {}],
      [body, { "webhook-id": "ntc_other" }],
      [body, { "webhook-timestamp": String(Number(headers["webhook-timestamp"]) - 1) }],
    ] as const)
      expect(() => new Webhook(secret).verify(altered, { ...headers, ...changes })).toThrow();
    expect(delivery.lines()).toEqual([
      { level: "info", msg: "notice delivered", notice: "account_low", count: 1 },
    ]);
  });

  test("of an account has a secret of its own", async () => {
    const receiver = open();
    const notify = notifyWith({ webhook: "https://operator.example/" });
    const alice = accountRecipient(notify, "alice", receiver.url);
    if (alice === undefined) throw new Error("no recipient");
    expect(await openDelivery().send([alice])).toBe(true);
    const { body = "", headers = {} } = receiver.received[0] ?? {};
    const own = accountWebhookSecret(secret, "alice");
    expect(() => new Webhook(own).verify(body, headers)).not.toThrow();
    for (const foreign of [secret, accountWebhookSecret(secret, "bob")])
      expect(() => new Webhook(foreign).verify(body, headers)).toThrow();
  });

  test.each([500, 404, 401, 429, 301, 308])(
    "that answers %i once comes again with the same id",
    async (status) => {
      const target = open();
      const receiver = open();
      receiver.statuses = [status];
      receiver.location = target.url;
      const delivery = openDelivery();
      expect(await delivery.send(webhooks(receiver.url))).toBe(true);
      const attempts = receiver.received;
      expect(attempts).toHaveLength(2);
      expect(new Set(attempts.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
      expect(new Set(attempts.map(({ body }) => body)).size).toBe(1);
      // Each attempt is signed anew, so that a receiver may refuse old ones.
      const times = attempts.map(({ headers }) => headers["webhook-timestamp"]);
      expect(new Set(times).size).toBe(2);
      // A redirect is not followed.
      expect(target.received).toEqual([]);
      expect(delivery.lines()).toHaveLength(1);
    },
  );

  test("whose answer has no end was taken if its status says so", async () => {
    const server = startRawServer(async (peer) => {
      await peer.request();
      await peer.send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
    });
    const delivery = openDelivery({ attemptTimeoutsMs: { webhook: 300, email: 0 } });
    expect(await delivery.send(webhooks(`http://127.0.0.1:${server.port}/hook`))).toBe(true);
    expect(server.peers).toHaveLength(1);
    server.stop();
  });

  test("that is gone gets no second attempt", async () => {
    const receiver = open();
    receiver.statuses = [410];
    const delivery = openDelivery();
    expect(await delivery.send(webhooks(receiver.url))).toBe(false);
    expect(receiver.received).toHaveLength(1);
    expect(delivery.lines()).toEqual([
      {
        level: "warn",
        event: "notice_not_delivered",
        msg: WARNING,
        notice: "account_low",
        address: hostOf(receiver),
        attempts: 1,
        outcome: "status",
        status: 410,
        count: 1,
        total: 1,
      },
    ]);
  });

  test("that always fails is given up after seven attempts with growing pauses", async () => {
    const receiver = open();
    receiver.statuses = Array.from({ length: 20 }, () => 500);
    const delivery = openDelivery();
    expect(await delivery.send(webhooks(receiver.url))).toBe(false);
    expect(receiver.received).toHaveLength(7);
    const usualS = [1, 5, 30, 120, 600, 1800];
    expect(delivery.pauses).toHaveLength(usualS.length);
    for (const [at, pauseMs] of delivery.pauses.entries()) {
      expect(pauseMs / 1000).toBeWithin(usualS[at] ?? 0, (usualS[at] ?? 0) * 1.2 + 0.001);
    }
    expect(delivery.lines()).toMatchObject([{ msg: WARNING, attempts: 7, status: 500 }]);
  });

  test("at which nothing listens is tried until something does", async () => {
    const before = startReceiver();
    const { port } = before;
    before.stop();
    const delivery = openDelivery();
    let receiver: WebhookReceiver | undefined;
    delivery.onPause = () => {
      if (delivery.pauses.length === 3) receiver = open({ port });
    };
    expect(await delivery.send(webhooks(`http://127.0.0.1:${port}/hook`))).toBe(true);
    expect(receiver?.received).toHaveLength(1);
    expect(delivery.pauses).toHaveLength(3);
  });

  const ca = [...rootCertificates, testAuthority()].join("\n");
  test.each<[CertificateName, string | undefined, string | undefined]>([
    ["localhost", ca, undefined],
    ["localhost", undefined, "tls"],
    ["otherHost", ca, "tls"],
    ["expired", ca, "tls"],
    ["selfSigned", ca, "tls"],
  ])("over TLS, with the certificate %s", async (certificate, authorities, outcome) => {
    const receiver = open({ certificate });
    const recipients = operatorRecipients(notifyWith({ webhook: receiver.url, ca: authorities }));
    const delivery = openDelivery();
    expect(await delivery.send(recipients)).toBe(outcome === undefined);
    expect(receiver.received).toHaveLength(outcome === undefined ? 1 : 0);
    const [line] = delivery.lines();
    expect(line?.["outcome"]).toBe(outcome);
  });
});

describe("the address of an account", () => {
  const mail = {
    server: { host: "mail.example", port: 465, tls: "implicit", login: undefined },
    from: "tollgate@example.com",
  } as const;
  const all = notifyWith({ mail });
  test.each([
    ["https://alice.example/hook", all, undefined],
    ["http://10.0.0.7/hook", all, undefined],
    ["mailto:alice@example.com", all, undefined],
    ["mailto:alice@example.com?bcc=b@c.d", all, "must have one mail address after mailto:"],
    ["mailto:a@b.c\r\nBcc: d@e.f", all, "must have one mail address after mailto:"],
    ["mailto:alice@example.com", notifyWith({}), "needs a mail server: set [notify] smtp"],
    ["https://alice.example", notifyWith({ secret: undefined }), "set [notify] secret"],
    ["http://alice.example", all, "must begin with https://"],
    ["ftp://alice.example", all, "must begin with https:// or mailto:"],
    ["", all, "must begin with https:// or mailto:"],
  ])("%j", (url, notify, problem) => {
    const recipient = accountRecipient(notify, "alice", url);
    if (problem === undefined) expect(accountUrlProblem(notify, url)).toBeUndefined();
    else expect(accountUrlProblem(notify, url)).toContain(problem);
    expect(recipient !== undefined).toBe(problem === undefined);
  });
});
