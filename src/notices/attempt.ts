import type { AttemptFailure, AttemptOptions } from "./attemptFailure.ts";
import type { NoticeMessage } from "./notice.ts";
import type { Recipient } from "./recipients.ts";
import { sendWebhook } from "./webhook.ts";

/** For one whole attempt. Some mail servers greet late on purpose. */
export const ATTEMPT_TIMEOUTS_MS: Readonly<Record<Recipient["kind"], number>> = {
  webhook: 10_000,
  email: 30_000,
};

/** Sends a notice to one recipient, once. Resolves with the failure, if any. Rejects only for a bug. */
export async function attemptNotice(
  message: NoticeMessage,
  recipient: Recipient,
  options: AttemptOptions,
): Promise<AttemptFailure | undefined> {
  if (recipient.kind === "webhook") return sendWebhook(message, recipient, options);
  // Loaded on demand, because most gateways send no mails.
  const { sendMail } = await import("./mail.ts");
  return sendMail(message, recipient, options);
}
