import type { Operator } from "./operator.ts";
import { MoneyReservedError, type Store } from "../store/store.ts";

const WAIT_MS = 2000;
const POLL_MS = 50;

/**
 * Runs a change that takes money from an account. If the serving gateway has reserved the money, it waits up to 2 s for
 * the gateway to release it. A reserve that a crashed gateway left is released at once. Rejects with what `change` throws.
 */
export async function withReservedMoney<T>(
  admin: Store["admin"],
  account: string,
  change: () => T | Promise<T>,
  onWait?: Operator["onWait"],
): Promise<T> {
  const deadlineMs = performance.now() + WAIT_MS;
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await change();
    } catch (error) {
      if (!(error instanceof MoneyReservedError) || performance.now() > deadlineMs) throw error;
    }
    if (isFirst) {
      if (await admin.releaseReserve(account)) continue;
      onWait?.(WAIT_MS);
    }
    await Bun.sleep(POLL_MS);
  }
}
