import { afterEach, describe, expect, test } from "bun:test";
import type { MailServer } from "../../src/config/schema.ts";
import { accountLow, mailTo, openDelivery } from "../support/notices/deliveryUnderTest.ts";
import {
  startMailReceiver,
  type MailReceiver,
  type MailReceiverOptions,
} from "../support/notices/mailReceiver.ts";
import { startRawServer, testAuthority, type RawPeer } from "../support/provider/rawServer.ts";

const receivers: { stop(): void }[] = [];
const open = async (options: MailReceiverOptions = {}): Promise<MailReceiver> => {
  const receiver = await startMailReceiver(options);
  receivers.push(receiver);
  return receiver;
};
afterEach(() => {
  for (const receiver of receivers.splice(0)) receiver.stop();
});

const login = { user: "bot@example.com", password: "canary" };
const users = { [login.user]: login.password };
const ca = testAuthority();

type Server = Partial<MailServer>;

describe("a mail", () => {
  test("has the notice as plain text", async () => {
    const receiver = await open();
    expect(await openDelivery().send(mailTo(receiver))).toBe(true);
    const [mail] = receiver.mails;
    expect(mail).toMatchObject({ from: "canary-from@example.net", to: ["canary@example.com"] });
    expect(mail?.headers).toMatchObject({
      from: "Tollgate <canary-from@example.net>",
      to: "canary@example.com",
      subject: "Tollgate: account alice is low",
      date: "Sat, 28 Nov 2026 12:00:00 +0000",
      "message-id": expect.stringMatching(/^<ntc_[0-9a-z]{20}@example\.net>$/) as string,
      "auto-submitted": "auto-generated",
      "content-type": "text/plain; charset=utf-8",
    });
    // Lines longer than 76 characters have soft breaks.
    expect(mail?.body.replaceAll("=\r\n", "").split("\r\n")).toEqual([
      accountLow().text,
      "",
      "account: alice",
      "balance_rub: 49.5",
      "days: 2",
      "empty_at: none",
      "",
    ]);
  });

  test("has no header and no recipient of the name of an account", async () => {
    const receiver = await open();
    const delivery = openDelivery();
    await delivery.send(mailTo(receiver), accountLow("alice"));
    await delivery.send(mailTo(receiver), accountLow("a\r\nBcc: eve@example.com\r\n\r\nhello"));
    await delivery.send(mailTo(receiver), accountLow("ж".repeat(200)));
    const [usual, hostile, long] = receiver.mails;
    for (const mail of [hostile, long]) {
      expect(mail?.to).toEqual(["canary@example.com"]);
      expect(Object.keys(mail?.headers ?? {})).toEqual(Object.keys(usual?.headers ?? {}));
      expect(mail?.headerCount).toBe(usual?.headerCount ?? 0);
    }
  });

  test.each<[string, MailReceiverOptions, Server, boolean]>([
    ["without TLS on this machine", { isPlain: true }, {}, false],
    ["without TLS, with a login", { isPlain: true, users }, { login }, false],
    ["with STARTTLS", {}, { tls: "starttls" }, true],
    ["with STARTTLS and a login", { users }, { tls: "starttls", login }, true],
    ["with TLS", { isImplicit: true }, { tls: "implicit" }, true],
    ["with TLS and a login", { isImplicit: true, users }, { tls: "implicit", login }, true],
  ])("is sent %s", async (_, options, server, isSecure) => {
    const receiver = await open(options);
    expect(await openDelivery().send(mailTo({ ...server, port: receiver.port }, { ca }))).toBe(
      true,
    );
    const user = server.login?.user;
    expect(receiver.mails).toMatchObject([{ isSecure, user }]);
    expect(receiver.logins).toEqual(user === undefined ? [] : [`${user} canary`]);
  });
});

describe("a mail is not delivered", () => {
  const wrong = { ...login, password: "canary-2" };
  const servers: Readonly<Record<string, readonly [MailReceiverOptions, Server, object]>> = {
    "refuses the login": [
      { users },
      { tls: "starttls", login: wrong },
      { outcome: "login", status: 535, attempts: 1 },
    ],
    "offers no login": [{}, { tls: "starttls", login }, { outcome: "login", attempts: 1 }],
    "offers no STARTTLS": [
      { isPlain: true, users },
      { tls: "starttls", login },
      { outcome: "starttls", attempts: 7 },
    ],
    "has the certificate of another host": [
      { certificate: "otherHost", users },
      { tls: "starttls", login },
      { outcome: "tls" },
    ],
    "has an expired certificate": [
      { certificate: "expired", users, isImplicit: true },
      { tls: "implicit", login },
      { outcome: "tls" },
    ],
    "has the certificate of an unknown authority": [
      { certificate: "selfSigned", users },
      { tls: "starttls", login },
      { outcome: "tls" },
    ],
    "speaks no TLS": [{ users }, { tls: "implicit", login }, { outcome: "tls" }],
  };
  test.each(Object.entries(servers))("if the server %s", async (_, [options, server, line]) => {
    const receiver = await open(options);
    const delivery = openDelivery();
    expect(await delivery.send(mailTo({ ...server, port: receiver.port }, { ca }))).toBe(false);
    expect(receiver.mails).toEqual([]);
    // A password goes only to a server whose certificate is right.
    expect(receiver.logins).toEqual(server.login === wrong ? ["bot@example.com canary-2"] : []);
    expect(delivery.lines()).toMatchObject([
      { level: "warn", notice: "account_low", address: "localhost", ...line },
    ]);
  });

  test("if nothing listens, and if the host is not known", async () => {
    const receiver = await startMailReceiver();
    receiver.stop();
    const delivery = openDelivery();
    expect(await delivery.send(mailTo(receiver))).toBe(false);
    expect(await delivery.send(mailTo({ host: "mail.invalid", port: 25 }))).toBe(false);
    expect(delivery.lines()).toMatchObject([{ outcome: "refused" }, { outcome: "dns" }]);
  });

  test("if the server says nothing", async () => {
    const silent = startRawServer(() => undefined);
    receivers.push(silent);
    const delivery = openDelivery({ attemptTimeoutsMs: { webhook: 0, email: 20 } });
    expect(await delivery.send(mailTo(silent))).toBe(false);
    expect(delivery.lines()).toMatchObject([{ outcome: "timeout", attempts: 7 }]);
  });

  test("by a silent server, while another one takes it", async () => {
    const silent = startRawServer(() => undefined);
    receivers.push(silent);
    const receiver = await open();
    const delivery = openDelivery({ closeTimeoutMs: 1 });
    const refused = delivery.send(mailTo(silent));
    expect(await delivery.send(mailTo(receiver))).toBe(true);
    expect(silent.openCount).toBe(1);
    await delivery.delivery.close();
    expect(await refused).toBe(false);
  });

  test.each<[string, (peer: RawPeer) => unknown, string]>([
    ["closes the connection", (peer) => peer.fin(), "closed"],
    ["resets the connection", (peer) => peer.reset(), "closed"],
    ["speaks no SMTP", (peer) => peer.send("HTTP/1.1 400 Bad Request\r\n\r\n"), "protocol"],
  ])("if the server %s", async (_, script, outcome) => {
    const server = startRawServer((peer) => void script(peer));
    receivers.push(server);
    const delivery = openDelivery();
    expect(await delivery.send(mailTo(server))).toBe(false);
    expect(delivery.lines()).toMatchObject([{ outcome, attempts: 7 }]);
  });
});

test.each([
  ["greeting", 421],
  ["greeting", 454],
  ["recipient", 450],
  ["mail", 452],
] as const)("a mail that is refused for now at its %s (%i) is sent again", async (part, code) => {
  const receiver = await open();
  receiver.refusals[part].push(code);
  const delivery = openDelivery();
  expect(await delivery.send(mailTo(receiver))).toBe(true);
  expect(receiver.connections).toBe(2);
  expect(receiver.mails).toHaveLength(1);
  expect(delivery.pauses).toHaveLength(1);
});

test.each([
  ["greeting", 554],
  ["recipient", 550],
  ["mail", 552],
] as const)("a mail that is refused for good at its %s (%i) is not", async (part, code) => {
  const receiver = await open();
  receiver.refusals[part].push(code);
  const delivery = openDelivery();
  expect(await delivery.send(mailTo(receiver))).toBe(false);
  expect(receiver.connections).toBe(1);
  expect(delivery.lines()).toMatchObject([{ outcome: "status", status: code, attempts: 1 }]);
});
