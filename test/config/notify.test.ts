import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadConfig } from "../../src/config/load.ts";
import { testAuthority } from "../support/provider/rawServer.ts";
import { byProblem, configOf, inScratchFolder, loadText, minimal } from "./loadText.ts";

const whsec = (bytes: number, fill = 7) => `whsec_${Buffer.alloc(bytes, fill).toString("base64")}`;
const secret = `secret = "${whsec(32)}"`;
const files = {
  "hook.url": "https://hooks.example/canary\n",
  "smtp.url": "smtps://u:p@mail.example\n",
  "notify.secret": `${whsec(24)}\n`,
  "ca.pem": testAuthority(),
  empty: "",
};

const textOf = (lines: string) => `[notify]\n${lines}\n${minimal}`;
const load = (lines: string) => loadText(textOf(lines), { files });
const notifyOf = (lines: string) => configOf(textOf(lines), { files }).notify;
const from = 'from = "tollgate@example.com"';

describe("a webhook", () => {
  test.each([
    ["https://hooks.example/T0/B1?x=1"],
    ["http://127.0.0.1:9000/hook"],
    ["http://alerts:9000"],
    ["http://alerts.internal/"],
    ["http://10.0.0.7/hook"],
  ])("is read: %s", (address) => {
    const { problems, warnings, config } = load(`webhook = "${address}"\n${secret}`);
    expect([...problems, ...warnings]).toEqual([]);
    expect(config?.notify).toMatchObject({ webhook: address, secret: whsec(32) });
  });

  test("and its secret are read from files", () => {
    expect(notifyOf('webhook_file = "hook.url"\nsecret_file = "notify.secret"')).toMatchObject({
      webhook: "https://hooks.example/canary",
      secret: whsec(24),
    });
  });

  test("in a readable file is reported", () => {
    const text = textOf(`webhook = "https://hooks.example/canary"\n${secret}`);
    const { warnings } = loadText(text, { mode: 0o644 });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toContain("contains notify.secret, notify.webhook: chmod 600 it");
    expect(warnings[0]).not.toContain("canary");
  });
});

describe("a mail server", () => {
  test.each([
    ["smtps://mail.example", { host: "mail.example", port: 465, tls: "implicit" }],
    ["smtps://[fd00::1]:2465/", { host: "fd00::1", port: 2465, tls: "implicit" }],
    ["smtp://Mail.example", { host: "mail.example", port: 587, tls: "starttls" }],
    ["smtp://10.0.0.7:25", { host: "10.0.0.7", port: 25, tls: "starttls" }],
    ["smtp://mailpit:1025?tls=none", { host: "mailpit", port: 1025, tls: "none" }],
    ["smtp://127.0.0.1:25", { host: "127.0.0.1", port: 25, tls: "none" }],
    ["smtp://localhost?tls=starttls", { host: "localhost", port: 587, tls: "starttls" }],
    [
      "smtp://bot%40example.com:p%3A%2F@mail.example",
      {
        host: "mail.example",
        port: 587,
        tls: "starttls",
        login: { user: "bot@example.com", password: "p:/" },
      },
    ],
    [
      "smtp://u:p@localhost",
      { host: "localhost", port: 587, tls: "none", login: { user: "u", password: "p" } },
    ],
  ])("is read: %s", (address, server) => {
    expect(notifyOf(`smtp = "${address}"\n${from}`).mail as unknown).toEqual({
      server: { login: undefined, ...server },
      from: "tollgate@example.com",
    });
  });

  test("is read from a file, with the operator's addresses and a certificate authority", () => {
    const list = 'email = ["one@example.com", "two@example.com"]';
    const notify = notifyOf(`smtp_file = "smtp.url"\n${from}\n${list}\nca_file = "ca.pem"`);
    expect(notify).toMatchObject({
      mail: { server: { login: { user: "u", password: "p" } } },
      emails: ["one@example.com", "two@example.com"],
    });
    expect(notify.ca).toEndWith(testAuthority());
    expect(notifyOf(`smtp_file = "smtp.url"\n${from}\nemail = "me@example.com"`).emails).toEqual([
      "me@example.com",
    ]);
  });
});

test.each([
  ["low = 50", { low: 50_000_000_000n }],
  ['low = "49.5"', { low: 49_500_000_000n }],
  ["low_days = 0", { lowDays: 0 }],
  ["low_days = 365", { lowDays: 365 }],
  ['key_expires = "0s"', { keyExpiresMs: 0 }],
  [
    'proxy = "socks5h://user:pass@proxy.example"',
    { proxyUrl: "socks5h://user:pass@proxy.example" },
  ],
  ['key_expires = "365d"', { keyExpiresMs: 365 * 86_400_000 }],
  [
    'webhook = ""\nsecret = ""\nsmtp = ""\nfrom = ""\nemail = ""\nca_file = ""\nproxy = ""',
    { emails: [] },
  ],
])("is read: %s", (lines, part) => {
  expect(notifyOf(lines)).toMatchObject(part);
});

const wrongSecret =
  'must be "whsec_" and the base64 of 24 to 64 random bytes: this command makes one: echo "whsec_$(openssl rand -base64 32)"';
const wrongMail =
  'must be one mail address, or a list such as ["one@example.com", "two@example.com"], without names';
const wrongLow =
  'must be roubles from 0 to 4000000000: a whole number, or a decimal text in quotes, such as "49.5"';
const escapes = "; write @ : / ? # % in a password as %40 %3A %2F %3F %23 %25";
const wrongQuery = "must have nothing after the ? but tls=starttls or tls=none, for smtp:// only";
const usable = 'smtp = "smtps://mail.example"';

function expectRefused(lines: string, problem: string): void {
  const { problems } = load(lines);
  expect(problems).toEqual([`notify.${problem}`]);
  expect(problems.join()).not.toContain("canary");
}

describe("is refused", () => {
  test.each(
    byProblem({
      "webhook: must be a URL that begins with https://": [
        'webhook = "h.example/canary"',
        'webhook = "mailto:canary@h.example"',
      ],
      "webhook: must begin with https://: over http:// others can read the notices on their way; a host of a private network may have http://":
        'webhook = "http://h.example/canary"',
      "webhook: must not contain a user or password": 'webhook = "https://u:canary@h.example"',
      "webhook: must not contain a fragment (#)": 'webhook = "https://h.example/#canary"',
      "webhook_file: must not be set together with webhook: keep one of them":
        'webhook = "https://h.example/canary"\nwebhook_file = "hook.url"',
      "webhook_file: the file is empty: write the URL into it": 'webhook_file = "empty"',
    }),
  )("beside a secret: %s", (lines, problem) => expectRefused(`${lines}\n${secret}`, problem));

  test.each(
    byProblem({
      [`smtp: must be a URL such as smtps://user:password@mail.example.com${escapes}`]:
        'smtp = "mail.example:25"',
      "smtp: must begin with smtps:// or smtp://": 'smtp = "http://mail.example"',
      "smtp: has a % in its user or password: write it as %25":
        'smtp = "smtps://u:100%@mail.example"',
      "smtp: must have a user and a password, or neither": 'smtp = "smtps://u@mail.example"',
      "smtp: must end after the host or the port, or with ?tls=none":
        'smtp = "smtps://mail.example/canary"',
      [`smtp: ${wrongQuery}`]: [
        'smtp = "smtps://mail.example?tls=none"',
        'smtp = "smtp://mail.example?tls=maybe"',
        'smtp = "smtp://mail.example?verify=no"',
      ],
      "smtp: must not have tls=none: the host is not in a private network":
        'smtp = "smtp://mail.example?tls=none"',
      "smtp: must not have tls=none with a password: it would be sent unencrypted; remove tls=none":
        'smtp = "smtp://u:canary@mailpit?tls=none"',
      [`email: ${wrongMail}`]: [
        `${usable}\nemail = "a@b.example\\nBcc: c@d.example"`,
        `${usable}\nemail = ["a@b.example", ""]`,
        `${usable}\nemail = ["A <a@b.example>"]`,
      ],
    }),
  )("beside a sender: %s", (lines, problem) => expectRefused(`${lines}\n${from}`, problem));

  test.each(
    byProblem({
      [`secret: is required with webhook: it ${wrongSecret}`]:
        'webhook = "https://h.example/canary"',
      "secret_file: the file is empty: write the signing secret into it": 'secret_file = "empty"',
      "secret_file: the file cannot be read: no such file (a relative path starts at the folder of the config)":
        'secret_file = "none"',
      [`secret: ${wrongSecret}`]: [
        'secret = "canary"',
        `secret = "${whsec(23)}"`,
        `secret = "${whsec(65)}"`,
        `secret = "${whsec(32).slice(0, -1)}"`,
      ],
      "from: is required with smtp: the mail address of the sender": usable,
      "from: requires smtp: set it, or remove from": from,
      'from: must be one mail address, such as "tollgate@example.com"': [
        `${usable}\nfrom = "Tollgate <a@b.example>"`,
      ],
      "email: requires smtp: set it, or remove email": 'email = "a@b.example"',
      'email: must be a mail address in quotes, or a list such as ["one@example.com"]': "email = 1",
      "proxy: must begin with http://, https://, socks5:// or socks5h://":
        'proxy = "ftp://u:canary@proxy.example"',
      "ca_file: the file is not a PEM certificate": 'ca_file = "notify.secret"',
      [`low: ${wrongLow}`]: ["low = -1", 'low = "4000000001"', 'low = "1,5"'],
      'low: must be roubles: a whole number, or a decimal text in quotes, such as "49.5"':
        "low = 1.5",
    }),
  )("%s", expectRefused);

  test("a key that it does not have", () => {
    expect(load("slack = true").problems).toEqual([
      expect.stringContaining("slack: unknown key; the keys here are webhook,"),
    ]);
  });
});

test("commands read no secret of it, or its secrets alone", () => {
  const text = textOf(`webhook = "\${HOOK}"\n${secret}\nsmtp_file = "none"\nemail = "a@b.example"`);
  inScratchFolder((folder) => {
    const path = join(folder, "config.toml");
    writeFileSync(path, text.replace("ONE_KEY", "NOT_SET"), { mode: 0o600 });
    const unread = loadConfig({ path, secrets: "unread", environment: {} }).config;
    expect(unread.notify).toMatchObject({ webhook: undefined, secret: undefined, emails: [] });
    const both = { path, secrets: "notify", environment: {} } as const;
    expect(() => loadConfig(both)).toThrow("notify.webhook: the environment variable HOOK");
    writeFileSync(path, textOf(`webhook = "\${HOOK}"\n${secret}`), { mode: 0o600 });
    const { config } = loadConfig({ ...both, environment: { HOOK: "https://hooks.example/x" } });
    expect(config.notify.webhook).toBe("https://hooks.example/x");
    expect(config.providers[0]?.apiKey).toBeUndefined();
  });
});
