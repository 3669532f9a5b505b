import { ApiFailure } from "../api.ts";
import { formats } from "../language.ts";
import { text } from "./text.ts";

/** A failure in the reader's language, where it is one of those that the gateway documents. */
export function inWords(failure: ApiFailure): ApiFailure {
  const { status, code, retryAfter, fields } = failure;
  const message = messageOf(failure);
  if (message === undefined) return failure;
  return new ApiFailure(status, message, {
    fields,
    ...(code !== undefined && { code }),
    ...(retryAfter !== undefined && { retryAfter }),
  });
}

function messageOf({ status, code, fields, message }: ApiFailure): string | undefined {
  const { required_rub: required, available_rub: available } = fields;
  if (typeof required === "string" && typeof available === "string") {
    const amounts = [formats.money(required, "exact"), formats.money(available, "exact")] as const;
    return code === "balance_held"
      ? text.failures.balanceHeld(...amounts)
      : text.failures.insufficientBalance(...amounts);
  }
  const byMessage: Readonly<Record<string, string>> = text.failures.byMessage;
  if (Object.hasOwn(byMessage, message)) return byMessage[message];
  if (status === 401) return text.failures.key;
  if (status === 429) return text.failures.rate;
  return undefined;
}
