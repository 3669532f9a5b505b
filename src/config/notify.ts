import { parseRoubles } from "../lib/money.ts";
import { bareHost, isLoopback, isPrivate } from "./address.ts";
import type { DeepPartial, Inspection } from "./inspection.ts";
import type { ConfigFile, MailServer, NotifyConfig } from "./schema.ts";
import { readProxy } from "./proxy.ts";
import { readSecret, readSecretUrl } from "./secretUrl.ts";
import { isUnencrypted, parseUrl } from "./serverUrl.ts";
import { readAuthority } from "./tls.ts";
import { readDurationMs } from "./values.ts";

type NotifyFile = NonNullable<DeepPartial<ConfigFile>["notify"]>;

/** The form of Standard Webhooks: https://www.standardwebhooks.com */
const SECRET_FORM = /^whsec_((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/;
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;
const SECRET_ADVICE =
  'must be "whsec_" and the base64 of 24 to 64 random bytes: this command makes one: echo "whsec_$(openssl rand -base64 32)"';

/** One address without a name: https://html.spec.whatwg.org/multipage/input.html#valid-e-mail-address */
const MAIL_ADDRESS =
  /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$/;
const MAIL_PORTS = { "smtps:": 465, "smtp:": 587 } as const;

/** Reads [notify]. Problems go to the inspection. */
export function readNotify(file: NotifyFile, inspection: Inspection): NotifyConfig {
  const secret = readSigningSecret(file, inspection);
  const webhook = readWebhook(file, inspection);
  if (webhook !== undefined && secret === undefined)
    inspection.problem("notify.secret", `is required with webhook: it ${SECRET_ADVICE}`);
  const mail = readMail(file, inspection);
  return {
    webhook,
    secret,
    mail,
    emails: readEmails(file.email ?? [], mail !== undefined, inspection),
    proxyUrl: readProxy(file.proxy ?? "", "notify.proxy", inspection),
    ca: readAuthorities(file.ca_file ?? "", inspection),
    low: readLow(file.low ?? 0n, inspection),
    lowDays: Number(file.low_days ?? 3n),
    keyExpiresMs: readDurationMs(inspection, "notify.key_expires", file.key_expires, {
      fallback: "7d",
      least: "0s",
      most: "365d",
    }),
  };
}

/** The bytes of a signing secret; undefined if the text is none. */
export function signingKeyOf(secret: string): Uint8Array | undefined {
  const base64 = SECRET_FORM.exec(secret)?.[1];
  if (base64 === undefined) return undefined;
  const key = Buffer.from(base64, "base64");
  return key.length >= SECRET_BYTES_MIN && key.length <= SECRET_BYTES_MAX ? key : undefined;
}

/** Why the text cannot be the address of a webhook, as the end of the sentence "it ..."; undefined if it can. */
export function webhookProblem(text: string): string | undefined {
  const url = parseUrl(text);
  if (url === undefined) return "must be a URL that begins with https://";
  if (url.username !== "" || url.password !== "") return "must not contain a user or password";
  if (url.hash !== "") return "must not contain a fragment (#)";
  return isUnencrypted(url)
    ? "must begin with https://: over http:// others can read the notices on their way; a host of a private network may have http://"
    : undefined;
}

/** Whether the text is one mail address, without a name. */
export function isMailAddress(text: string): boolean {
  return MAIL_ADDRESS.test(text);
}

function readSigningSecret(file: NotifyFile, inspection: Inspection): string | undefined {
  const secret = readSecret(
    "notify.secret",
    file.secret,
    file.secret_file,
    inspection,
    "signing secret",
  );
  if (secret === undefined) return undefined;
  const { key, text } = secret;
  if (key === "notify.secret") inspection.markSecret(key, text);
  if (signingKeyOf(text) === undefined) inspection.problem(key, SECRET_ADVICE);
  return text;
}

function readWebhook(file: NotifyFile, inspection: Inspection): string | undefined {
  const address = readSecret("notify.webhook", file.webhook, file.webhook_file, inspection);
  if (address === undefined) return undefined;
  const { key, text } = address;
  // The path of such an address is often a secret.
  if (key === "notify.webhook") inspection.markSecret(key, text);
  const problem = webhookProblem(text);
  if (problem !== undefined) inspection.problem(key, problem);
  return text;
}

function readMail(file: NotifyFile, inspection: Inspection): NotifyConfig["mail"] {
  const from = file.from ?? "";
  const address = readSecret("notify.smtp", file.smtp, file.smtp_file, inspection);
  if (address === undefined) {
    if (from !== "") inspection.problem("notify.from", "requires smtp: set it, or remove from");
    return undefined;
  }
  if (from === "")
    inspection.problem("notify.from", "is required with smtp: the mail address of the sender");
  else if (!isMailAddress(from))
    inspection.problem("notify.from", 'must be one mail address, such as "tollgate@example.com"');
  const { key, text } = address;
  const url = readSecretUrl(text, key, "smtps://user:password@mail.example.com", inspection);
  const server = url && mailServerOf(url, key, inspection);
  // With a problem the config is not used.
  return { server: server ?? { host: "", port: 0, tls: "none", login: undefined }, from };
}

function mailServerOf(url: URL, key: string, inspection: Inspection): MailServer | undefined {
  const { protocol, pathname, username, password } = url;
  if (protocol !== "smtp:" && protocol !== "smtps:") {
    inspection.problem(key, "must begin with smtps:// or smtp://");
    return undefined;
  }
  const host = bareHost(url.hostname);
  const tls = protocol === "smtps:" ? "implicit" : plainOrStartTls(url, host);
  const hasLogin = username !== "" || password !== "";
  if (pathname !== "" && pathname !== "/")
    inspection.problem(key, "must end after the host or the port, or with ?tls=none");
  else if (tls === undefined || (protocol === "smtps:" && url.search !== ""))
    inspection.problem(
      key,
      "must have nothing after the ? but tls=starttls or tls=none, for smtp:// only",
    );
  else if (hasLogin && (username === "" || password === ""))
    inspection.problem(key, "must have a user and a password, or neither");
  else if (tls === "none" && !isPrivate(host))
    inspection.problem(key, "must not have tls=none: the host is not in a private network");
  else if (tls === "none" && hasLogin && !isLoopback(host))
    inspection.problem(
      key,
      "must not have tls=none with a password: it would be sent unencrypted; remove tls=none",
    );
  return {
    host,
    port: Number(url.port) || MAIL_PORTS[protocol],
    tls: tls ?? "starttls",
    login: hasLogin ? { user: decoded(username), password: decoded(password) } : undefined,
  };
}

/** What `?tls=` says. Without it only a server on this machine needs no TLS. Undefined for another query. */
function plainOrStartTls({ searchParams }: URL, host: string): "starttls" | "none" | undefined {
  const names = [...searchParams.keys()];
  if (names.length === 0) return isLoopback(host) ? "none" : "starttls";
  const tls = searchParams.get("tls");
  return names.length === 1 && (tls === "starttls" || tls === "none") ? tls : undefined;
}

/** The text as it is if its percent signs are wrong, which is a problem already. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function readEmails(
  given: string | readonly (string | undefined)[],
  hasServer: boolean,
  inspection: Inspection,
): readonly string[] {
  const emails = (typeof given === "string" ? [given] : given).map((one) => one ?? "");
  const listed = emails.filter((one) => typeof given !== "string" || one !== "");
  if (listed.some((one) => !isMailAddress(one)))
    inspection.problem(
      "notify.email",
      'must be one mail address, or a list such as ["one@example.com", "two@example.com"], without names',
    );
  else if (listed.length > 0 && !hasServer)
    inspection.problem("notify.email", "requires smtp: set it, or remove email");
  return listed;
}

/** The public authorities and a private one: the mail server and the webhooks may need either. */
function readAuthorities(path: string, inspection: Inspection): string | undefined {
  const own = readAuthority(path, "notify.ca_file", inspection);
  if (own === undefined) return undefined;
  // Loaded only if an authority is configured.
  return [...process.getBuiltinModule("node:tls").rootCertificates, own].join("\n");
}

/** Nano-roubles. */
function readLow(given: string | bigint, inspection: Inspection): bigint {
  const low = parseRoubles(String(given));
  if (low !== undefined && low >= 0n) return low;
  inspection.problem(
    "notify.low",
    'must be roubles from 0 to 4000000000: a whole number, or a decimal text in quotes, such as "49.5"',
  );
  return 0n;
}
