import { and, eq, sql } from "drizzle-orm";
import { assert } from "../lib/assert.ts";
import { heldSum, isRunning, requests } from "./requestSchema.ts";
import { accounts } from "./schema.ts";
import type { Connection } from "./sqlite.ts";

/** The money that was promised to a request is gone before its row came into the books. */
export class InsufficientFunds extends Error {
  override readonly name = "InsufficientFunds";
}

/** What is held for a request, and all that its account's open requests were promised then, itself included. */
interface PromisedRequest {
  readonly accountId: number;
  readonly hold: bigint;
  readonly promised: bigint;
}

/**
 * Refuses a request whose account cannot pay its hold any more. What is promised in memory becomes known to
 * others with the row: until then a debit, a lower overdraft or a charge beyond its own hold may take it. So
 * at every moment the books can pay all that is held in them. Throws InsufficientFunds.
 */
export function holdChecker({ db }: Connection): (request: PromisedRequest) => void {
  const funds = db
    .select({ balance: accounts.balance, overdraft: accounts.overdraft })
    .from(accounts)
    .where(eq(accounts.id, sql.placeholder("accountId")))
    .prepare();
  const running = db
    .select({ held: heldSum })
    .from(requests)
    .where(and(eq(requests.accountId, sql.placeholder("accountId")), isRunning))
    .prepare();
  return ({ accountId, hold, promised }) => {
    const account = funds.get({ accountId });
    assert(account !== undefined, "a request of no account");
    const spendable = account.balance + account.overdraft;
    // Whatever is held in the books was promised before, so as a rule nothing need be added up.
    if (promised <= spendable) return;
    const held = running.get({ accountId })?.held ?? 0n;
    if (held + hold > spendable)
      throw new InsufficientFunds("the account cannot pay the hold any more");
  };
}
