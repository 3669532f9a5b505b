import type { AttemptFailure, AttemptOptions } from "./attemptFailure.ts";
import type { NoticeMessage } from "./notice.ts";
import type { Recipient } from "./recipients.ts";
import { sendWebhook } from "./webhook.ts";

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
