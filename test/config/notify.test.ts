import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { loadConfig } from "../../src/config/load.ts";
import { testAuthority } from "../support/provider/rawServer.ts";
import { configOf, inScratchFolder, loadText, minimal } from "./loadText.ts";

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

describe("is refused", () => {
  test.each([
    ['webhook = "https://h.example/canary"', `secret: is required with webhook: it ${wrongSecret}`],
    [`webhook = "h.example/canary"\n${secret}`, "webhook: must be a URL that begins with https://"],
    [
      `webhook = "mailto:canary@h.example"\n${secret}`,
      "webhook: must be a URL that begins with https://",
    ],
    [
      `webhook = "http://h.example/canary"\n${secret}`,
      "webhook: must begin with https://: over http:// others can read the notices on their way; a host of a private network may have http://",
    ],
    [
      `webhook = "https://u:canary@h.example"\n${secret}`,
      "webhook: must not contain a user or password",
    ],
    [
      `webhook = "https://h.example/#canary"\n${secret}`,
      "webhook: must not contain a fragment (#)",
    ],
    [
      `webhook = "https://h.example/canary"\nwebhook_file = "hook.url"\n${secret}`,
      "webhook_file: must not be set together with webhook: keep one of them",
    ],
    [`webhook_file = "empty"\n${secret}`, "webhook_file: the file is empty: write the URL into it"],
    ['secret_file = "empty"', "secret_file: the file is empty: write the signing secret into it"],
    [
      'secret_file = "none"',
      "secret_file: the file cannot be read: no such file (a relative path starts at the folder of the config)",
    ],
    ['secret = "canary"', `secret: ${wrongSecret}`],
    [`secret = "${whsec(23)}"`, `secret: ${wrongSecret}`],
    [`secret = "${whsec(65)}"`, `secret: ${wrongSecret}`],
    [`secret = "${whsec(32).slice(0, -1)}"`, `secret: ${wrongSecret}`],
    [usable, "from: is required with smtp: the mail address of the sender"],
    [from, "from: requires smtp: set it, or remove from"],
    [
      `${usable}\nfrom = "Tollgate <a@b.example>"`,
      'from: must be one mail address, such as "tollgate@example.com"',
    ],
    ['email = "a@b.example"', "email: requires smtp: set it, or remove email"],
    [`${usable}\n${from}\nemail = "a@b.example\\nBcc: c@d.example"`, `email: ${wrongMail}`],
    [`${usable}\n${from}\nemail = ["a@b.example", ""]`, `email: ${wrongMail}`],
    [`${usable}\n${from}\nemail = ["A <a@b.example>"]`, `email: ${wrongMail}`],
    ["email = 1", 'email: must be a mail address in quotes, or a list such as ["one@example.com"]'],
    [
      `smtp = "mail.example:25"\n${from}`,
      `smtp: must be a URL such as smtps://user:password@mail.example.com${escapes}`,
    ],
    [`smtp = "http://mail.example"\n${from}`, "smtp: must begin with smtps:// or smtp://"],
    [
      `smtp = "smtps://u:100%@mail.example"\n${from}`,
      "smtp: has a % in its user or password: write it as %25",
    ],
    [
      `smtp = "smtps://u@mail.example"\n${from}`,
      "smtp: must have a user and a password, or neither",
    ],
    [
      `smtp = "smtps://mail.example/canary"\n${from}`,
      "smtp: must end after the host or the port, or with ?tls=none",
    ],
    [`smtp = "smtps://mail.example?tls=none"\n${from}`, `smtp: ${wrongQuery}`],
    [`smtp = "smtp://mail.example?tls=maybe"\n${from}`, `smtp: ${wrongQuery}`],
    [`smtp = "smtp://mail.example?verify=no"\n${from}`, `smtp: ${wrongQuery}`],
    [
      `smtp = "smtp://mail.example?tls=none"\n${from}`,
      "smtp: must not have tls=none: the host is not in a private network",
    ],
    [
      `smtp = "smtp://u:canary@mailpit?tls=none"\n${from}`,
      "smtp: must not have tls=none with a password: it would be sent unencrypted; remove tls=none",
    ],
    [
      'proxy = "ftp://u:canary@proxy.example"',
      "proxy: must begin with http://, https://, socks5:// or socks5h://",
    ],
    ['ca_file = "notify.secret"', "ca_file: the file is not a PEM certificate"],
    ["low = -1", `low: ${wrongLow}`],
    ['low = "4000000001"', `low: ${wrongLow}`],
    ['low = "1,5"', `low: ${wrongLow}`],
    [
      "low = 1.5",
      'low: must be roubles: a whole number, or a decimal text in quotes, such as "49.5"',
    ],
    ["slack = true", expect.stringContaining("slack: unknown key; the keys here are webhook,")],
  ])("%s", (lines, problem) => {
    const { problems } = load(lines);
    const expected: unknown = typeof problem === "string" ? `notify.${problem}` : problem;
    expect(problems as unknown).toEqual([expected]);
    expect(problems.join()).not.toContain("canary");
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
