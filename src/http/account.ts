import type { App } from "../app.ts";
import type { Caller } from "../auth/apiKey.ts";
import { balanceForm, keyForm } from "../contract/accountForm.ts";
import { assert } from "../lib/assert.ts";
import { available } from "../store/store.ts";
import { limitsInForce } from "./authentication.ts";

/** The caller's account and the key that it came with, as the store has them now. */
export function showAccount(app: App, caller: Caller): string {
  const { accounts, keys } = app.gateway.store;
  const account = accounts.find(caller.account);
  const key = keys.find(caller.publicId);
  assert(account !== undefined && key !== undefined, "a caller without an account");
  return JSON.stringify({
    account: account.name,
    ...balanceForm(account, available(account)),
    key: keyForm(key, limitsInForce(app, key)),
  });
}
