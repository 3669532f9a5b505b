import { actor } from "./storeFolder.ts";

/*
 * SQL as somebody writes it who knows the tables and asks no program, for the accounts alice, bob and carol.
 */

export const CAROL = "(SELECT id FROM accounts WHERE name = 'carol')";
export const ALICE = "(SELECT id FROM accounts WHERE name = 'alice')";
export const BOB = "(SELECT id FROM accounts WHERE name = 'bob')";

/** A row of the ledger after the last one of an account, with some columns changed. */
export function ledgerInto(name: string, changes: Record<string, string> = {}): string {
  const columns = {
    account_id: "id",
    seq: "ledger_seq + 1",
    kind: "'credit'",
    amount: "1",
    balance_after: "balance + 1",
    at: "0",
    ...changes,
  };
  return `INSERT INTO ledger (${Object.keys(columns).join(", ")})
    SELECT ${Object.values(columns).join(", ")} FROM accounts WHERE name = '${name}'`;
}
export const refundInto = (amount: number, refundOf: string, name = "alice"): string =>
  ledgerInto(name, {
    kind: "'refund'",
    amount: `${amount}`,
    balance_after: `balance + ${amount}`,
    refund_of: refundOf,
  });
/** A row of the ledger for the charge of `req_done`, with some columns changed. */
export const foldedInto = (changes: Record<string, string> = {}): string => {
  const columns = {
    account_id: "account_id",
    seq: "ledger_seq",
    kind: "'charge'",
    amount: "-charge",
    balance_after: "balance_after",
    ref: "'req:' || public_id",
    at: "at",
    ...changes,
  };
  return `INSERT INTO ledger (${Object.keys(columns).join(", ")})
    SELECT ${Object.values(columns).join(", ")} FROM requests WHERE public_id = 'req_done'`;
};
/** Lets requests be folded. */
export const keepNone = "UPDATE retention SET kept_since = 9000000000000";
export const removeDone = "DELETE FROM attempts; DELETE FROM requests WHERE public_id = 'req_done'";
export const fold = `${keepNone}; ${foldedInto()}; ${removeDone}`;

/** A request of alice for a token of 25 nano-roubles, `done` at a place of her history; some columns changed. */
export function chargeInto(
  name: string,
  place = "a.ledger_seq",
  balance = "a.balance",
  changes: Record<string, string> = {},
): string {
  const columns = {
    public_id: `'${name}'`,
    at: `${actor.at}`,
    account_id: "a.id",
    key_id: "1",
    endpoint: "'chat'",
    model: "'small'",
    stream: "0",
    status: "'done'",
    price_input: "25",
    price_cached_input: "2",
    price_cache_write: "30",
    price_cache_write_1h: "50",
    price_output: "200",
    figures_price: "500",
    hold: "100",
    charge: "25",
    prompt_tokens: "1",
    ledger_seq: place,
    balance_after: balance,
    ...changes,
  };
  return `INSERT INTO requests (${Object.keys(columns).join(", ")})
    SELECT ${Object.values(columns).join(", ")} FROM accounts a WHERE a.name = 'alice'`;
}
/** The account moves first. */
export const moveAlice = (rows: number, amount: number): string =>
  `UPDATE accounts SET ledger_seq = ledger_seq + ${rows}, balance = balance - ${amount} WHERE name = 'alice'`;
export const first = chargeInto("req_a", "a.ledger_seq - 1", "a.balance + 25");
export const second = chargeInto("req_b");
export const noCharge = { charge: "0", prompt_tokens: "0" };
/** Charges of alice in one statement: how far each is before the last one. */
export const groupInto = (...before: readonly number[]): string =>
  before
    .map((places) =>
      chargeInto(`req_${places}`, `a.ledger_seq - ${places}`, `a.balance + ${25 * places}`),
    )
    .map((text, index) => (index === 0 ? text : text.slice(text.indexOf("SELECT"))))
    .join(" UNION ALL ");
/** Ends the running request with a charge of 25. */
export const endOpen = (place = "a.ledger_seq", balance = "a.balance", status = "done"): string =>
  `UPDATE requests SET (status, charge, prompt_tokens, ledger_seq, balance_after, replica_id) =
    (SELECT '${status}', 25, 1, ${place}, ${balance}, NULL::bigint FROM accounts a WHERE a.name = 'alice') WHERE public_id = 'req_open'`;
export const changeOpen = (changes: string): string =>
  `UPDATE requests SET replica_id = NULL, status = 'failed', ${changes} WHERE public_id = 'req_open'`;
export const reserve = (account: string, amount: string): string =>
  `UPDATE accounts SET reserved = ${amount} WHERE id = ${account}`;
export const credit = (voucher: string, changes: Record<string, string> = {}): string =>
  ledgerInto("bob", {
    amount: "7",
    balance_after: "balance + 7",
    ref: `'voucher:${voucher}'`,
    at: "50",
    ...changes,
  });
export const redeem = (voucher: string, at = 50): string =>
  `UPDATE vouchers SET redeemed_at = ${at}, redeemed_by = ${BOB} WHERE public_id = '${voucher}'`;
export const addVoucher = (changes: Record<string, string> = {}): string => {
  const columns = {
    public_id: "'v_new'",
    hash: "sha256('v_new')",
    prefix: "'v'",
    amount: "7",
    created_at: "0",
    ...changes,
  };
  return `INSERT INTO vouchers (${Object.keys(columns).join(", ")}) VALUES (${Object.values(columns).join(", ")})`;
};
export const addKey = `INSERT INTO keys (public_id, account_id, hash, prefix, created_at) VALUES ('x', ${ALICE}, '\\x00', 'sk', 0)`;
export const addReplica =
  "INSERT INTO replicas (name, version, started_at, seen_at, ended_at, last_batch) VALUES ('gone', '1', 0, 0, 1, 0)";
export const endReplica = "UPDATE replicas SET ended_at = 1 WHERE ended_at IS NULL";
export const interrupt =
  "UPDATE requests SET status = 'interrupted', replica_id = NULL WHERE status = 'running'";
