import { parseRoubles } from "../lib/money.ts";
import { bareHost, isLoopback, isPrivate } from "./address.ts";
import type { Inspection } from "./inspection.ts";
import {
  duration,
  entry,
  file,
  readTable,
  secret,
  text,
  wholeNumber,
  type Table,
} from "./option.ts";
import { readProxy } from "./proxy.ts";
import { readSecretUrl, type Secret } from "./secretUrl.ts";
import { isUnencrypted, parseUrl } from "./serverUrl.ts";
import { readAuthority } from "./tls.ts";

/** The form of Standard Webhooks: https://www.standardwebhooks.com */
const SECRET_FORM = /^whsec_((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/;
const SECRET_BYTES_MIN = 24;
const SECRET_BYTES_MAX = 64;
const SECRET_ADVICE =
  'must be "whsec_" and the base64 of 24 to 64 random bytes: this command makes one: echo "whsec_$(openssl rand -base64 32)"';

/** One address without a name: https://html.spec.whatwg.org/multipage/input.html#valid-e-mail-address */
const MAIL_ADDRESS =
  /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$/;
/** Decimals without quotes would be floating point. */
const ROUBLES = 'a whole number, or a decimal text in quotes, such as "49.5"';
const MAIL_PORTS = { "smtps:": 465, "smtp:": 587 } as const;

export const notifyOptions = {
  /** https, or http in a private network. Its path may be a secret. */
  webhook: secret("webhook", {
    serveOnly: true,
    form: 'an address in quotes, such as "https://example.com/hook"',
    doc: "Gets each notice as JSON by POST: an https:// address, also of a chat such as Slack's. A host of a private network may have http://. Such an address often contains a secret; webhook_file names a file that contains the address.",
  }),
  secret: secret("secret", {
    serveOnly: true,
    what: "signing secret",
    doc: 'Signs what webhooks get. Required for them. `echo "whsec_$(openssl rand -base64 32)"` makes one. Or a file that contains it.',
  }),
  smtp: secret("smtp", {
    serveOnly: true,
    form: 'an address in quotes, such as "smtps://user:password@mail.example.com"',
    doc: 'The mail server, such as "smtps://user:password@mail.example.com" (port 465), or "smtp://..." (port 587, with STARTTLS). @ in the user is written as %40. "?tls=none" is for a server in a private network, without a password; a server on this machine needs no TLS unless "?tls=starttls" asks for it. Or a file that contains the address.',
  }),
  from: text("from", {
    default: "",
    serveOnly: true,
    doc: "The sender of the mails. Required with smtp.",
  }),
  email: entry<readonly string[]>(
    "email",
    { serveOnly: true, doc: "Your own address, or a list of addresses. Needs smtp." },
    {
      form: 'a mail address in quotes, or a list such as ["one@example.com"]',
      accept(value) {
        const list: readonly unknown[] = Array.isArray(value) ? value : value === "" ? [] : [value];
        return list.every((one) => typeof one === "string") ? list : undefined;
      },
      absent: [],
      default: "[]",
    },
  ),
  proxy: text("proxy", {
    default: "",
    serveOnly: true,
    doc: "Webhooks and mails go through this proxy. The form is that of a provider's proxy.",
  }),
  caFile: file("ca_file", {
    serveOnly: true,
    doc: "PEM file of a private certificate authority that signed the certificate of the mail server, of a webhook or of the proxy. It is trusted besides the public authorities.",
  }),
  low: entry(
    "low",
    {
      doc: 'An account is low below this many roubles: a whole number, or a text such as "49.5". 0: never. An account can have its own.',
    },
    { form: `roubles: ${ROUBLES}`, accept: acceptRoubles, absent: 0n, default: "0" },
  ),
  lowDays: wholeNumber("low_days", {
    default: 3,
    max: 365,
    doc: "An account is also low if its money lasts for fewer days at its pace. 0 to 365; 0: never.",
  }),
  keyExpiresMs: duration("key_expires", {
    default: "7d",
    max: "365d",
    doc: 'How long before its end a key is reported. "0s": never.',
  }),
} as const;

/** Reads [notify]. Problems go to the inspection. */
export function readNotify(table: Table, inspection: Inspection): NotifyConfig {
  const given = readTable(notifyOptions, table, "notify", inspection);
  const secret = readSigningSecret(given.secret, inspection);
  const webhook = readWebhook(given.webhook, inspection);
  if (webhook !== undefined && secret === undefined)
    inspection.problem("notify.secret", `is required with webhook: it ${SECRET_ADVICE}`);
  const mail = readMail(given, inspection);
  const { low, lowDays, keyExpiresMs } = given;
  return {
    webhook,
    secret,
    mail,
    emails: checkEmails(given.email, mail !== undefined, inspection),
    proxyUrl: readProxy(given.proxy, "notify.proxy", inspection),
    ca: readAuthorities(given.caFile, inspection),
    low,
    lowDays,
    keyExpiresMs,
  };
}

/** The recipients of notices, how they are reached, and the thresholds. */
export interface NotifyConfig {
  /** The operator's webhook: https, or http in a private network. Its path may be a secret. Set only with `secret`. */
  readonly webhook: string | undefined;
  /** `whsec_` and base64. It signs the operator's webhook, and the secrets of accounts are derived from it. */
  readonly secret: string | undefined;
  /** The server that sends mails, with the address of the sender. */
  readonly mail: { readonly server: MailServer; readonly from: string } | undefined;
  /** The operator's addresses. Not empty only with `mail`. */
  readonly emails: readonly string[];
  /** For webhooks and mails. May hold a password. */
  readonly proxyUrl: string | undefined;
  /** The PEM text of all trusted authorities. Undefined: the built-in ones. */
  readonly ca: string | undefined;
  /** An account is low below this many nano-roubles. 0: never. */
  readonly low: bigint;
  /** An account is low if its money lasts for fewer days at its pace. 0: never. */
  readonly lowDays: number;
  /** How long before its expiry a key is reported. 0: never. */
  readonly keyExpiresMs: number;
}

/** A server that takes mails to send, by SMTP. */
export interface MailServer {
  /** A name or an address; IPv6 without brackets. */
  readonly host: string;
  readonly port: number;
  /** "implicit": TLS from the first byte. "starttls": TLS before login and mail, or nothing is sent. */
  readonly tls: "implicit" | "starttls" | "none";
  readonly login: { readonly user: string; readonly password: string } | undefined;
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

function readSigningSecret(secret: Secret | undefined, inspection: Inspection): string | undefined {
  if (secret === undefined) return undefined;
  const { key, text, file } = secret;
  if (file === undefined) inspection.markSecret(key, text);
  if (signingKeyOf(text) === undefined) inspection.problem(key, SECRET_ADVICE);
  return text;
}

function readWebhook(address: Secret | undefined, inspection: Inspection): string | undefined {
  if (address === undefined) return undefined;
  const { key, text, file } = address;
  // The path of such an address is often a secret.
  if (file === undefined) inspection.markSecret(key, text);
  const problem = webhookProblem(text);
  if (problem !== undefined) inspection.problem(key, problem);
  return text;
}

function readMail(
  { smtp, from }: { readonly smtp: Secret | undefined; readonly from: string },
  inspection: Inspection,
): NotifyConfig["mail"] {
  if (smtp === undefined) {
    if (from !== "") inspection.problem("notify.from", "requires smtp: set it, or remove from");
    return undefined;
  }
  if (from === "")
    inspection.problem("notify.from", "is required with smtp: the mail address of the sender");
  else if (!isMailAddress(from))
    inspection.problem("notify.from", 'must be one mail address, such as "tollgate@example.com"');
  const url = readSecretUrl(smtp, "smtps://user:password@mail.example.com", inspection);
  const server = url && mailServerOf(url, smtp.key, inspection);
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

function checkEmails(
  emails: readonly string[],
  hasServer: boolean,
  inspection: Inspection,
): readonly string[] {
  if (emails.some((one) => !isMailAddress(one)))
    inspection.problem(
      "notify.email",
      'must be one mail address, or a list such as ["one@example.com", "two@example.com"], without names',
    );
  else if (emails.length > 0 && !hasServer)
    inspection.problem("notify.email", "requires smtp: set it, or remove email");
  return emails;
}

/** The public authorities and a private one: the mail server and the webhooks may need either. */
function readAuthorities(path: string, inspection: Inspection): string | undefined {
  const own = readAuthority(path, "notify.ca_file", inspection);
  if (own === undefined) return undefined;
  // Loaded only if an authority is configured.
  return [...process.getBuiltinModule("node:tls").rootCertificates, own].join("\n");
}

function acceptRoubles(value: unknown, place: string, inspection: Inspection): bigint | undefined {
  if (typeof value !== "bigint" && typeof value !== "string") return undefined;
  const amount = parseRoubles(String(value));
  if (amount !== undefined && amount >= 0n) return amount;
  inspection.problem(place, `must be roubles from 0 to 4000000000: ${ROUBLES}`);
  return undefined;
}
