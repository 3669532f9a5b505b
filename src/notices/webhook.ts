import { signingKeyOf } from "../config/notify.ts";
import { isoTime } from "../lib/clock.ts";
import { ConnectionError, createPoster } from "../providers/upstream.ts";
import type { AttemptFailure, AttemptOptions, NoticeMessage } from "./notice.ts";
import type { WebhookRecipient } from "./recipients.ts";

const GONE = 410;

/**
 * Posts a notice as https://www.standardwebhooks.com describes: the signature covers id, time and body. Each attempt has
 * its own time, because a receiver may refuse an old one. Redirects are not followed.
 */
export async function sendWebhook(
  { id, notice }: NoticeMessage,
  { url, secret, proxyUrl, ca }: WebhookRecipient,
  { clock, timeoutMs, signal }: AttemptOptions,
): Promise<AttemptFailure | undefined> {
  const { origin, pathname, search } = new URL(url);
  const poster = createPoster({
    baseUrl: origin,
    headers: {},
    proxyUrl,
    ca,
    connectTimeoutMs: timeoutMs,
    timeoutMs,
  });
  const close = (): void => poster.close();
  signal.addEventListener("abort", close);
  try {
    const body = bodyOf(notice);
    const headers = signatureHeaders(id, Math.floor(clock.epochMs() / 1000), body, secret);
    const { status } = await poster.post(pathname + search, body, headers);
    if (status >= 200 && status < 300) return undefined;
    // Any other status may pass: a proxy may answer 404 while the receiver restarts.
    return { reason: "status", status, isFinal: status === GONE };
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    return { reason: error.code, status: undefined, cause: error.cause, isFinal: false };
  } finally {
    signal.removeEventListener("abort", close);
    close();
  }
}

/**
 * The type is the member `notice`, because Mattermost has a meaning of its own for `type`. Chats show `text`:
 * https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks
 */
function bodyOf({ type, subject, atMs, text, data }: NoticeMessage["notice"]): string {
  return JSON.stringify({
    notice: type,
    subject: subject ?? null,
    timestamp: isoTime(atMs),
    text,
    data,
  });
}

function signatureHeaders(
  id: string,
  timestampS: number,
  body: string,
  secret: string,
): Readonly<Record<string, string>> {
  const key = signingKeyOf(secret);
  if (key === undefined) throw new Error("the signing secret is not valid");
  const hmac = new Bun.CryptoHasher("sha256", key).update(`${id}.${timestampS}.${body}`);
  return {
    "webhook-id": id,
    "webhook-timestamp": String(timestampS),
    "webhook-signature": `v1,${hmac.digest("base64")}`,
  };
}
