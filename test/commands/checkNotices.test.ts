import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { Webhook } from "standardwebhooks";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { configText, type Section } from "../support/gateway/gatewayConfig.ts";
import { secret } from "../support/notices/deliveryUnderTest.ts";
import { startMailReceiver, type MailReceiverOptions } from "../support/notices/mailReceiver.ts";
import { startReceiver } from "../support/notices/webhookReceiver.ts";
import { testAuthority, type CertificateName } from "../support/provider/rawServer.ts";

const opened: { stop(): unknown }[] = [];
afterEach(async () => {
  for (const one of opened.splice(0)) await one.stop();
});

/** A folder whose config has this section, and a model that needs no provider. */
async function openFolder(notify: Section): Promise<CliFolder> {
  const cli = await openCliFolder(configText({ providers: {}, models: [], sections: { notify } }));
  await Bun.write(join(cli.folder, "ca.pem"), testAuthority());
  opened.push({ stop: () => cli.remove() });
  return cli;
}

async function noticesOf(notify: Section): Promise<unknown[]> {
  const cli = await openFolder(notify);
  const { stdout } = await cli.run("check", "--live", "--json");
  return (JSON.parse(stdout) as { notices: unknown[] }).notices;
}

function openReceiver(statuses: (number | undefined)[] = [], certificate?: CertificateName) {
  const receiver = startReceiver(certificate && { certificate });
  opened.push(receiver);
  receiver.statuses = statuses;
  return receiver;
}

async function openMailReceiver(options: MailReceiverOptions) {
  const receiver = await startMailReceiver(options);
  opened.push(receiver);
  return receiver;
}

const ms = expect.any(Number) as number;
const from = "tollgate@example.com";
const users = { bot: "canary" };

describe("check --live", () => {
  test("sends a test notice to each recipient of the operator", async () => {
    const receiver = openReceiver([], "localhost");
    const mail = await openMailReceiver({ users, isImplicit: true });
    const notify = {
      webhook: `${receiver.url}?canary`,
      secret,
      smtp: `smtps://bot:canary@localhost:${mail.port}`,
      from,
      email: ["one@example.com", "two@example.com"],
      ca_file: "ca.pem",
    };
    const cli = await openFolder(notify);
    const run = await cli.run("check", "--live", "--json");
    expect(run.status).toBe(0);
    const sent = { recipient: "email", ok: true, message: "ok", duration_ms: ms };
    expect(JSON.parse(run.stdout)).toMatchObject({
      ok: true,
      notices: [
        { ...sent, recipient: "webhook", address: new URL(receiver.url).host },
        { ...sent, address: "one@example.com" },
        { ...sent, address: "two@example.com" },
      ],
    });
    const [request] = receiver.received;
    expect(new Webhook(secret).verify(request?.body ?? "", request?.headers ?? {})).toMatchObject({
      notice: "test",
      subject: null,
      data: {},
    });
    // They are sent at the same time.
    const [one, two] = mail.mails.toSorted((a, b) => a.to.join().localeCompare(b.to.join()));
    expect(one).toMatchObject({ isSecure: true, user: "bot", from, to: ["one@example.com"] });
    expect(two).toMatchObject({ isSecure: true, user: "bot", from, to: ["two@example.com"] });
    expect(one?.headers["subject"]).toBe("Tollgate: test notice");
    expect(run.stdout + run.stderr).not.toContain("canary");
  });

  test("shows the results in a table, and exits with 1 if one failed", async () => {
    const receiver = openReceiver([500]);
    const mail = await openMailReceiver({});
    const smtp = `smtp://localhost:${mail.port}`;
    const cli = await openFolder({ webhook: receiver.url, secret, smtp, from, email: from });
    const run = await cli.run("check", "--live");
    expect(run).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/^error: 1 of 2 test notices failed: see above$/m) as string,
    });
    const lines = run.stdout.split("\n").map((line) => line.trim().replace(/ +/g, " "));
    expect(lines.slice(2)).toEqual([
      "test notice address ms result",
      expect.stringMatching(/^webhook \S+ \d+ the receiver failed \(500\): look at its log$/),
      expect.stringMatching(/^email tollgate@example.com \d+ ok$/),
    ] as string[]);
  });

  test("without recipients has no test notice", async () => {
    expect(await noticesOf({ secret })).toBeUndefined();
  });

  test.each<[number, string]>([
    [302, "webhook redirects (302), and redirects are not followed: use the target address"],
    [
      401,
      "the receiver refuses the notice (401): check webhook, and that the receiver has the secret",
    ],
    [410, "the receiver does not have this address (410): check webhook"],
    [429, "the receiver answers with status 429: check webhook"],
  ])("explains the status %i", async (status, message) => {
    const target = openReceiver();
    const receiver = openReceiver([status]);
    receiver.location = target.url;
    expect(await noticesOf({ webhook: receiver.url, secret })).toMatchObject([
      { ok: false, message },
    ]);
    expect([receiver.received.length, target.received.length]).toEqual([1, 0]);
  });

  const noTls =
    "cannot connect, the certificate is of another host, has expired or is not trusted, or the server speaks no TLS: check";
  test.each<[string, () => Promise<string>, string]>([
    [
      "an unknown host",
      async () => "https://nowhere.invalid/canary",
      "cannot connect, DNS does not know the host: check webhook and the DNS of this machine",
    ],
    [
      "a port where nothing listens",
      async () => {
        const closed = startReceiver();
        closed.stop();
        return `http://127.0.0.1:${closed.port}/canary`;
      },
      "cannot connect, nothing listens there: check webhook and that the receiver runs",
    ],
    ["an unknown authority", async () => openReceiver([], "localhost").url, `${noTls} webhook`],
  ])("explains %s", async (_, address, message) => {
    const notices = await noticesOf({ webhook: await address(), secret });
    expect(notices).toMatchObject([
      { ok: false, message: expect.stringContaining(message) as string },
    ]);
    expect(JSON.stringify(notices)).not.toContain("canary");
  });

  test.each<[string, MailReceiverOptions, (port: number) => string, string]>([
    [
      "a refused login",
      { users },
      (port) => `smtp://bot:wrong@localhost:${port}?tls=starttls`,
      "the mail server refuses the login (535): check the user and the password in smtp, and that its port offers a login",
    ],
    [
      "a server without STARTTLS",
      { isPlain: true },
      (port) => `smtp://localhost:${port}?tls=starttls`,
      "the mail server offers no STARTTLS (500): use smtps:// or another port in smtp",
    ],
    [
      "the certificate of another host",
      { certificate: "otherHost", isImplicit: true },
      (port) => `smtps://localhost:${port}`,
      `${noTls} smtp, or set ca_file`,
    ],
  ])("explains %s", async (_, options, smtp, message) => {
    const { port } = await openMailReceiver(options);
    const notify = { smtp: smtp(port), from, email: from, ca_file: "ca.pem" };
    expect(await noticesOf(notify)).toMatchObject([{ ok: false, message }]);
  });
});
