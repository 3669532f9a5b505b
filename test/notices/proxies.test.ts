import { afterEach, describe, expect, test } from "bun:test";
import type { MailServer } from "../../src/config/schema.ts";
import { operatorRecipients } from "../../src/notices/recipients.ts";
import { mailTo, notifyWith, openDelivery } from "../support/notices/deliveryUnderTest.ts";
import { startMailReceiver, type MailReceiverOptions } from "../support/notices/mailReceiver.ts";
import { startReceiver } from "../support/notices/webhookReceiver.ts";
import { testAuthority } from "../support/provider/rawServer.ts";
import { startForwardProxy, type ForwardProxyOptions } from "../support/servers/forwardProxy.ts";
import { until } from "../support/until.ts";

const opened: { stop(): void }[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one.stop();
});
function stopped<Thing extends { stop(): void }>(thing: Thing): Thing {
  opened.push(thing);
  return thing;
}

const ca = testAuthority();
const login = { user: "proxy user", password: "canary" };

async function open(scheme: string, changes: Partial<ForwardProxyOptions> = {}) {
  const kind = scheme === "socks5h" ? "socks5" : (scheme as ForwardProxyOptions["kind"]);
  const proxy = stopped(await startForwardProxy({ kind, login, ...changes }));
  return { proxy, proxyUrl: `${scheme}://proxy%20user:canary@localhost:${proxy.port}` };
}

describe.each(["http", "https", "socks5", "socks5h"])("through a proxy behind %s://", (scheme) => {
  const asked = (port: number): string =>
    scheme === "socks5" ? `address 127.0.0.1:${port}` : `name localhost:${port}`;

  test("a webhook is delivered", async () => {
    const receiver = stopped(startReceiver({ certificate: "localhost" }));
    const { proxy, proxyUrl } = await open(scheme);
    const notify = notifyWith({ webhook: receiver.url, ca, proxyUrl });
    expect(await openDelivery().send(operatorRecipients(notify))).toBe(true);
    expect(receiver.received).toHaveLength(1);
    expect(proxy.asked.map((one) => one.replace("[::1]", "127.0.0.1"))).toEqual([
      asked(receiver.port),
    ]);
    await until("the connection is closed", () => proxy.openCount === 0);
  });

  test.each<[string, MailReceiverOptions, Partial<MailServer>]>([
    ["without TLS", { isPlain: true }, {}],
    ["with STARTTLS", {}, { tls: "starttls" }],
    ["with TLS", { isImplicit: true }, { tls: "implicit" }],
  ])("a mail is sent %s", async (_, options, server) => {
    const receiver = stopped(await startMailReceiver(options));
    const { proxy, proxyUrl } = await open(scheme);
    const delivery = openDelivery();
    const recipients = mailTo({ ...server, port: receiver.port }, { ca, proxyUrl });
    expect(await delivery.send(recipients)).toBe(true);
    expect(receiver.mails).toMatchObject([{ isSecure: server.tls !== undefined }]);
    expect(proxy.asked.map((one) => one.replace("[::1]", "127.0.0.1"))).toEqual([
      asked(receiver.port),
    ]);
    await until("the connection is closed", () => proxy.openCount === 0);
  });

  test("a mail does not go to a server with a wrong certificate", async () => {
    const receiver = stopped(
      await startMailReceiver({ isImplicit: true, certificate: "otherHost" }),
    );
    const { proxy, proxyUrl } = await open(scheme);
    const delivery = openDelivery();
    const server = { tls: "implicit", port: receiver.port } as const;
    expect(await delivery.send(mailTo(server, { ca, proxyUrl }))).toBe(false);
    expect(delivery.lines()).toMatchObject([{ outcome: "tls" }]);
    await until("the connections are closed", () => proxy.openCount === 0);
  });

  test("nothing is sent if it refuses the password, and the log says so", async () => {
    const receiver = stopped(startReceiver());
    const mails = stopped(await startMailReceiver());
    const { proxyUrl } = await open(scheme, { login: { ...login, password: "another" } });
    const webhook = receiver.url.replace("http://", "https://");
    for (const recipients of [
      operatorRecipients(notifyWith({ webhook, ca, proxyUrl })),
      mailTo(mails, { ca, proxyUrl }),
    ]) {
      const delivery = openDelivery();
      expect(await delivery.send(recipients)).toBe(false);
      expect(delivery.lines()).toMatchObject([{ outcome: "proxy" }]);
    }
    expect([receiver.received, mails.mails]).toEqual([[], []]);
  });

  test("a mail waits for a silent proxy no longer than its time", async () => {
    const { proxyUrl } = await open(scheme);
    const silent = stopped(Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } }));
    const port = new URL(proxyUrl).port;
    const delivery = openDelivery({ attemptTimeoutsMs: { webhook: 0, email: 30 } });
    const silentUrl = proxyUrl.replace(port, String(silent.port));
    expect(await delivery.send(mailTo({ port: 25 }, { ca, proxyUrl: silentUrl }))).toBe(false);
    expect(delivery.lines()).toMatchObject([{ outcome: "timeout" }]);
  });
});
