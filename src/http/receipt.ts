import type { App } from "../app.ts";
import type { Caller } from "../auth/apiKey.ts";
import { requestNotFound } from "../contract/errors.ts";
import { receiptForm } from "../contract/requestForm.ts";

/** What became of one request of the caller's account. Throws ApiError 404, in the same words for another account's. */
export function showReceipt(app: App, caller: Caller, id: string): string {
  const receipt = app.gateway.store.requests.receipt(caller.accountId, id);
  if (receipt === undefined) throw requestNotFound();
  return JSON.stringify(receiptForm(receipt));
}
