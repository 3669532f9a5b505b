import type { NotifyConfig } from "../../config/schema.ts";
import { systemClock } from "../../lib/clock.ts";
import { idMaker, systemRandom } from "../../lib/random.ts";
import { ATTEMPT_TIMEOUTS_MS, attemptNotice } from "../../notices/delivery.ts";
import type { AttemptFailure } from "../../notices/notice.ts";
import { hostOf, operatorRecipients, type Recipient } from "../../notices/recipients.ts";
import { proxyAdvice } from "./proxyAdvice.ts";
import { table } from "../../lib/terminal.ts";

/** The result of one test notice in `check --live --json`. */
export interface NoticeResult {
  readonly recipient: Recipient["kind"];
  /** The host of the webhook, whose path may be a secret, or the mail address. */
  readonly address: string;
  readonly ok: boolean;
  readonly message: string;
  readonly duration_ms: number;
}

/** Sends one notice of the type `test` to each recipient of the operator, once. */
export function sendTestNotices(notify: NotifyConfig): Promise<readonly NoticeResult[]> {
  const id = idMaker(systemClock, systemRandom)("ntc");
  const notice = {
    type: "test",
    subject: undefined,
    atMs: systemClock.epochMs(),
    text: "This is a test notice of `tollgate check --live`. There is nothing to do.",
    data: {},
  } as const;
  return Promise.all(
    operatorRecipients(notify).map(async (recipient): Promise<NoticeResult> => {
      const startedMs = systemClock.monotonicMs();
      const failure = await attemptNotice({ id, notice }, recipient, {
        clock: systemClock,
        timeoutMs: ATTEMPT_TIMEOUTS_MS[recipient.kind],
        signal: new AbortController().signal,
      });
      return {
        recipient: recipient.kind,
        address: recipient.kind === "webhook" ? hostOf(recipient) : recipient.to,
        ok: failure === undefined,
        message: failure === undefined ? "ok" : noticeAdvice(recipient, failure),
        duration_ms: Math.round(systemClock.monotonicMs() - startedMs),
      };
    }),
  );
}

/** A table with one line for each recipient. */
export function noticesText(results: readonly NoticeResult[]): string {
  const columns = [
    { head: "test notice" },
    { head: "address" },
    { head: "ms", kind: "number" },
    { head: "result" },
  ] as const;
  return table(
    columns,
    results.map(({ recipient, address, duration_ms, message }) => [
      recipient,
      address,
      String(duration_ms),
      message,
    ]),
  );
}

/** Why a recipient did not take the notice and what to do, in one line. */
function noticeAdvice(
  { kind, proxyUrl }: Recipient,
  { reason, status, cause }: AttemptFailure,
): string {
  const [key, who] =
    kind === "webhook"
      ? (["webhook", "the receiver"] as const)
      : (["smtp", "the mail server"] as const);
  const isOwn = reason === "status" || reason === "login" || reason === "starttls";
  if (proxyUrl !== undefined && !isOwn) {
    const advice = proxyAdvice(reason, cause, proxyUrl, { key, who });
    if (advice !== undefined) return advice;
  }
  const code = status === undefined ? "" : ` (${status})`;
  switch (reason) {
    case "status":
      return kind === "webhook"
        ? statusAdvice(status ?? 0)
        : `${who} refuses the mail${code}: check from, email and the rules of the server`;
    case "login":
      return `${who} refuses the login${code}: check the user and the password in ${key}, and that its port offers a login`;
    case "starttls":
      return `${who} offers no STARTTLS${code}: use smtps:// or another port in ${key}`;
    case "dns":
      return `cannot connect, DNS does not know the host: check ${key} and the DNS of this machine`;
    case "refused":
      return `cannot connect, nothing listens there: check ${key} and that ${who} runs`;
    case "unreachable":
      return `cannot connect: check ${key} and the network`;
    case "tls":
      return `cannot connect, the certificate is of another host, has expired or is not trusted, or the server speaks no TLS: check ${key}, or set ca_file`;
    case "timeout":
      return `no answer within ${ATTEMPT_TIMEOUTS_MS[kind] / 1000} s: check ${key} and that ${who} runs`;
    case "descriptors":
      return "cannot connect, this process may open no further file: raise the limit of open files (`ulimit -n`)";
    case "closed":
    case "proxy":
    case "protocol":
    case "request":
      return `${who} closed the connection or does not speak ${kind === "webhook" ? "HTTP" : "SMTP"}: check ${key}`;
  }
}

function statusAdvice(status: number): string {
  if (status >= 300 && status < 400)
    return `webhook redirects (${status}), and redirects are not followed: use the target address`;
  if (status === 401 || status === 403)
    return `the receiver refuses the notice (${status}): check webhook, and that the receiver has the secret`;
  if (status === 404 || status === 405 || status === 410)
    return `the receiver does not have this address (${status}): check webhook`;
  return status >= 500
    ? `the receiver failed (${status}): look at its log`
    : `the receiver answers with status ${status}: check webhook`;
}
