import { isMailAddress, signingKeyOf, webhookProblem } from "../config/notify.ts";
import type { MailServer, NotifyConfig } from "../config/schema.ts";

/** Who gets a notice, with all that sending needs. A reload of the config does not change a recipient. */
export type Recipient = WebhookRecipient | MailRecipient;

export interface WebhookRecipient {
  readonly kind: "webhook";
  readonly url: string;
  /** `whsec_` and base64. */
  readonly secret: string;
  /** May hold a password. */
  readonly proxyUrl: string | undefined;
  /** The PEM text of all authorities that are trusted. Undefined: the built-in ones. */
  readonly ca: string | undefined;
}

export interface MailRecipient {
  readonly kind: "email";
  readonly to: string;
  readonly from: string;
  readonly server: MailServer;
  readonly proxyUrl: string | undefined;
  readonly ca: string | undefined;
}

/** The operator's webhook and mail addresses. Empty if none is configured. */
export function operatorRecipients(notify: NotifyConfig): readonly Recipient[] {
  const { webhook, secret, emails } = notify;
  const webhooks = webhook !== undefined && secret !== undefined ? [webhook] : [];
  return [
    ...webhooks.map((url) => webhookRecipient(notify, url, secret ?? "")),
    ...emails.flatMap((to) => mailRecipient(notify, to) ?? []),
  ];
}

/**
 * The recipient of an account's own notices: `https://…`, `http://…` in a private network, or `mailto:alice@example.com`.
 * Undefined if {@link accountUrlProblem} finds a problem, for example after [notify] was removed from the config.
 */
export function accountRecipient(
  notify: NotifyConfig,
  account: string,
  url: string,
): Recipient | undefined {
  if (accountUrlProblem(notify, url) !== undefined) return undefined;
  const to = mailAddressOf(url);
  if (to !== undefined) return mailRecipient(notify, to);
  const secret = accountWebhookSecret(notify.secret ?? "", account);
  return webhookRecipient(notify, url, secret);
}

/** Why notices of an account cannot go to the address, and what to do; undefined if they can. */
export function accountUrlProblem(notify: NotifyConfig, url: string): string | undefined {
  const to = mailAddressOf(url);
  if (to !== undefined) {
    if (!isMailAddress(to)) return "must have one mail address after mailto:, without a name";
    return notify.mail === undefined
      ? "needs a mail server: set [notify] smtp and from in the config"
      : undefined;
  }
  if (!/^https?:/i.test(url)) return "must begin with https:// or mailto:";
  if (notify.secret === undefined)
    return "needs a secret that signs the notices: set [notify] secret in the config";
  return webhookProblem(url);
}

/**
 * The secret that signs the notices of an account: `whsec_` and the base64 of HMAC-SHA256 of `account:NAME`, with the
 * operator's secret as the key. It is derived so that the store has no secret, and changes when the operator's does.
 */
export function accountWebhookSecret(secret: string, account: string): string {
  const key = signingKeyOf(secret);
  if (key === undefined) throw new Error("the operator's signing secret is not valid");
  const hmac = new Bun.CryptoHasher("sha256", key).update(`account:${account}`);
  return `whsec_${hmac.digest("base64")}`;
}

/** The host of a recipient, for logs. The rest of an address may be a secret or a name. */
export function hostOf(recipient: Recipient): string {
  return recipient.kind === "webhook" ? new URL(recipient.url).host : recipient.server.host;
}

function mailAddressOf(url: string): string | undefined {
  return url.startsWith("mailto:") ? url.slice("mailto:".length) : undefined;
}

function webhookRecipient(
  { proxyUrl, ca }: NotifyConfig,
  url: string,
  secret: string,
): WebhookRecipient {
  return { kind: "webhook", url, secret, proxyUrl, ca };
}

function mailRecipient(
  { mail, proxyUrl, ca }: NotifyConfig,
  to: string,
): MailRecipient | undefined {
  return mail && { kind: "email", to, from: mail.from, server: mail.server, proxyUrl, ca };
}
