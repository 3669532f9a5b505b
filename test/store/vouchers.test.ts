import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import type { RedemptionOutcome } from "../../src/store/writer/redemption.ts";
import { auditFile } from "../support/auditor/auditor.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { actor, costOfEnded, ended, fund, type Owner } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";
import { issueVoucher, issueVouchers, voucherOf } from "../support/store/vouchers.ts";

const HUGE = 9_223_372_036_854_775_807n;
const storeFolder = openStoreBefore({ audited: false });

async function redeem(
  voucherId: number,
  { accountId }: Pick<Owner, "accountId">,
  at: number = actor.at,
): Promise<RedemptionOutcome | undefined> {
  const redemption = { voucherId, accountId, actor: "key_test", at };
  const { redeemed } = await storeFolder.writer.write({ kind: "redeemVoucher", redemption });
  return redeemed;
}

/** No problem for the audit and for the auditor of the tests. */
function expectAuditClean(): void {
  expect(storeFolder.store.audit().problems).toEqual([]);
  expect(auditFile(storeFolder.path)).toEqual([]);
}

function balanceOf(account: string): bigint {
  return storeFolder.store.accounts.findOrThrow(account).balance;
}

describe("a redemption", () => {
  test("credits the account once, with a ref and the key", async () => {
    const { store } = storeFolder;
    const alice = fund(store, "alice", 10n);
    const bob = fund(store, "bob", 0n);
    const voucher = issueVoucher(store, { note: "card 7" });
    expect(await redeem(voucher.id, alice)).toBe("applied");
    expect(await redeem(voucher.id, alice, actor.at + 5)).toBe("repeated");
    expect(await redeem(voucher.id, bob)).toBe("refused");
    expect([balanceOf("alice"), balanceOf("bob")]).toEqual([510n, 0n]);
    expect(store.ledger.history(alice.accountId, 1)).toMatchObject([
      { kind: "credit", amount: 500n, ref: `voucher:${voucher.publicId}`, actor: "key_test" },
    ]);
    expect(voucherOf(store, voucher.code)).toMatchObject({
      redeemedAt: actor.at,
      redeemedBy: "alice",
      note: "card 7",
    });
    expectAuditClean();
  });

  test.each<[string, RedemptionOutcome]>([
    ["revoked", "refused"],
    ["expired", "refused"],
    ["unknown", "refused"],
    ["more than the balance can take", "too_large"],
  ])("of a voucher that is %s is %s", async (state, outcome) => {
    const { store } = storeFolder;
    const alice = fund(store, "alice", 10n);
    const expiresAt = actor.at + 1000;
    const voucher = issueVoucher(store, { expiresAt });
    if (state === "revoked") store.admin.revokeVoucher(actor, voucher.publicId);
    if (state.startsWith("more")) store.admin.setOverdraft(actor, "alice", HUGE - 10n);
    const id = state === "unknown" ? 99 : voucher.id;
    expect(await redeem(id, alice, state === "expired" ? expiresAt : actor.at)).toBe(outcome);
    expect(balanceOf("alice")).toBe(10n);
    expectAuditClean();
  });

  test("of one voucher by two accounts at once, fifty times: one credit", async () => {
    const { store } = storeFolder;
    const accounts = [fund(store, "alice", 0n), fund(store, "bob", 0n)] as const;
    const voucher = issueVoucher(store);
    const outcomes = await Promise.all(
      Array.from({ length: 50 }, (_, index) => redeem(voucher.id, accounts[index % 2 ? 1 : 0])),
    );
    expect(outcomes.filter((outcome) => outcome === "applied")).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === "repeated")).toHaveLength(24);
    expect(balanceOf("alice") + balanceOf("bob")).toBe(500n);
    expectAuditClean();
  });

  test("shares a transaction with charges of the account", async () => {
    const { store, writer } = storeFolder;
    const alice = fund(store, "alice", 1_000_000n);
    const vouchers = issueVouchers(store, 20);
    await storeFolder.reserve(alice.accountId, 500_000n);
    const charge = (id: string): Promise<unknown> =>
      writer.write({ kind: "recordRequest", record: ended(id, alice) });
    const outcomes = await Promise.all(
      vouchers.flatMap(({ id, publicId }) => [charge(`req_${publicId}`), redeem(id, alice)]),
    );
    expect(outcomes.filter((outcome) => outcome === "applied")).toHaveLength(20);
    expect(balanceOf("alice")).toBe(1_000_000n + 20n * (500n - costOfEnded));
    await storeFolder.reserve(alice.accountId, 0n);
    expectAuditClean();
  });

  test("in a batch with a refused operation is applied once", async () => {
    const { store, writer } = storeFolder;
    const alice = fund(store, "alice", 100n);
    const voucher = issueVoucher(store);
    // Nothing is reserved for this charge.
    const refused = writer.write({ kind: "recordRequest", record: ended("req_1", alice) });
    const applied = redeem(voucher.id, alice);
    expect(await refused.catch(({ failure }: { failure: string }) => failure)).toBe("insufficient");
    expect(await applied).toBe("applied");
    expect(balanceOf("alice")).toBe(600n);
    expectAuditClean();
  });

  test("and a revocation by a command at once: one of them", async () => {
    const { store } = storeFolder;
    const alice = fund(store, "alice", 0n);
    for (const voucher of issueVouchers(store, 30)) {
      const redemption = redeem(voucher.id, alice);
      let isRevoked = true;
      try {
        store.admin.revokeVoucher(actor, voucher.publicId);
      } catch (error) {
        expect(String(error)).toContain("was redeemed by account");
        isRevoked = false;
      }
      expect(await redemption).toBe(isRevoked ? "refused" : "applied");
    }
    expectAuditClean();
  });
});

describe("the changes of commands", () => {
  test("are in the admin log, one row for each voucher, without a code", () => {
    const { store } = storeFolder;
    const vouchers = issueVouchers(store, 2, { expiresAt: actor.at + 1000 });
    const [first] = vouchers;
    expect(store.admin.revokeVoucher(actor, first?.publicId ?? "").applied).toBe(true);
    expect(store.admin.revokeVoucher(actor, first?.publicId ?? "").applied).toBe(false);
    const sqlite = new Database(storeFolder.path, { readonly: true });
    const rows = sqlite.query("SELECT command, subject, detail FROM admin_log ORDER BY id").all();
    sqlite.close();
    const detail = "0.0000005, expires 2026-01-01T00:00:01.000Z";
    const created = vouchers.map(({ publicId }) => {
      return { command: "vouchers create", subject: publicId, detail };
    });
    expect(rows).toEqual([
      ...created,
      { command: "vouchers revoke", subject: first?.publicId, detail: null },
    ]);
    expectAuditClean();
  });

  test("create all vouchers or none", () => {
    const { store } = storeFolder;
    const { publicId } = issueVoucher(store);
    const codes = ["vch_new", publicId].map((id) => {
      return { publicId: id, hash: new Uint8Array(32).fill(id.length), prefix: "00000" };
    });
    const settings = { amount: 5n, note: null, expiresAt: null };
    expect(() => store.admin.createVouchers(actor, { ...settings, codes })).toThrow(
      "there already",
    );
    expect(store.vouchers.list()).toHaveLength(1);
  });

  test.each([
    ["vch_", 3],
    ["CARD", 1],
    ["ALI", 1],
    ["nothing", 0],
  ])("a list with %s has %i", async (search, count) => {
    const { store } = storeFolder;
    const alice = fund(store, "alice", 0n);
    const { id } = issueVoucher(store);
    issueVoucher(store);
    issueVoucher(store, { note: "Card 7" });
    await redeem(id, alice);
    expect(store.vouchers.list({ search })).toHaveLength(count);
    expect(store.vouchers.list({ search, limit: 1 })).toHaveLength(Math.min(count, 1));
  });
});

/** Two vouchers: the first one (row 1) is open, the second one (row 2) is redeemed by alice. */
async function issueTwo(): Promise<readonly [open: string, redeemed: string]> {
  const { store } = storeFolder;
  const alice = fund(store, "alice", 10n);
  fund(store, "bob", 0n);
  const open = issueVoucher(store);
  const redeemed = issueVoucher(store);
  await redeem(redeemed.id, alice);
  return [open.publicId, redeemed.publicId];
}

const creditInto =
  "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at) SELECT a.id, a.ledger_seq + 1, ";
const fromBoth = "FROM accounts a, vouchers v WHERE a.name = 'bob' AND v.id = 1";
const ofOpen = "'voucher:' || v.public_id";
const redeemInto = (at: string): string =>
  `UPDATE vouchers SET redeemed_at = ${at}, redeemed_by = 2 WHERE id = 1`;

describe("the store refuses SQL that bypasses the program:", () => {
  test.each([
    ["a redemption without a credit", redeemInto("5"), "no such credit"],
    [
      "a redemption with the credit of another voucher",
      "UPDATE vouchers SET redeemed_at = 5, redeemed_by = 1 WHERE id = 1",
      "no such credit",
    ],
    [
      "a redemption at another time than its credit",
      `${creditInto} 'credit', v.amount, a.balance + v.amount, ${ofOpen}, 5 ${fromBoth}; ${redeemInto("6")}`,
      "no such credit",
    ],
    [
      "a credit without a voucher",
      `${creditInto} 'credit', 5, a.balance + 5, 'voucher:x', 5 ${fromBoth}`,
      "open voucher",
    ],
    [
      "a credit of another amount",
      `${creditInto} 'credit', 5, a.balance + 5, ${ofOpen}, 5 ${fromBoth}`,
      "open voucher",
    ],
    [
      "a debit in the name of a voucher",
      `${creditInto} 'debit', 0, a.balance, ${ofOpen}, 5 ${fromBoth}`,
      "open voucher",
    ],
    [
      "a credit of a revoked voucher",
      `UPDATE vouchers SET revoked_at = 5 WHERE id = 1; ${creditInto} 'credit', v.amount, a.balance + v.amount, ${ofOpen}, 5 ${fromBoth}`,
      "open voucher",
    ],
    [
      "a second credit",
      `${creditInto} 'credit', v.amount, a.balance + v.amount, ${ofOpen}, 5 ${fromBoth.replace("1", "2")}`,
      "open voucher",
    ],
    ["to revoke a redeemed voucher", "UPDATE vouchers SET revoked_at = 5 WHERE id = 2", "once"],
    [
      "to revoke a voucher with a credit",
      `${creditInto} 'credit', v.amount, a.balance + v.amount, ${ofOpen}, 5 ${fromBoth}; UPDATE vouchers SET revoked_at = 5 WHERE id = 1`,
      "has its credit",
    ],
    [
      "to open a redeemed voucher again",
      "UPDATE vouchers SET redeemed_at = NULL, redeemed_by = NULL WHERE id = 2",
      "exactly once",
    ],
    ["to change an amount", "UPDATE vouchers SET amount = 5000 WHERE id = 1", "never changed"],
    ["to change a code", "UPDATE vouchers SET hash = x'00' WHERE id = 1", "never changed"],
    ["to change a note", "UPDATE vouchers SET note = 'x' WHERE id = 1", "never changed"],
    ["to change an expiry", "UPDATE vouchers SET expires_at = 5 WHERE id = 1", "never changed"],
    ["to remove a voucher", "DELETE FROM vouchers WHERE id = 1", "never removed"],
    [
      "a voucher that is created redeemed",
      "INSERT INTO vouchers (public_id, hash, prefix, amount, created_at, redeemed_at, redeemed_by) VALUES ('v', x'01', '', 5, 0, 5, 1)",
      "a new voucher is open",
    ],
    [
      "a voucher with the code of another",
      "INSERT OR REPLACE INTO vouchers (public_id, hash, prefix, amount, created_at) SELECT 'v', hash, '', 5, 0 FROM vouchers WHERE id = 1",
      "there already",
    ],
    [
      "a voucher of nothing",
      "INSERT INTO vouchers (public_id, hash, prefix, amount, created_at) VALUES ('v', x'01', '', 0, 0)",
      "vouchers_amount",
    ],
    ["to reserve refs from another row on", "UPDATE voucher_start SET ledger_id = 9", "changed"],
    ["a second first row", "INSERT INTO voucher_start VALUES (2, 0)", "one row"],
    ["no first row", "DELETE FROM voucher_start", "one row"],
  ])("%s", async (_, statements, message) => {
    await issueTwo();
    const sqlite = new Database(storeFolder.path, { readwrite: true });
    const run = sqlite.transaction(() => {
      for (const statement of statements.split("; ")) sqlite.run(statement);
    });
    expect(run).toThrow(message);
    sqlite.close();
    expectAuditClean();
  });
});

describe("the audit finds", () => {
  test.each([
    [
      "a redeemed voucher whose credit is missing",
      "UPDATE ledger SET ref = 'mine' WHERE ref GLOB 'voucher:*'",
      "voucher REDEEMED: is redeemed, but its account does not have exactly that credit",
    ],
    [
      "a voucher of another amount than its credit",
      "UPDATE vouchers SET amount = 5000 WHERE id = 2",
      "voucher REDEEMED: is redeemed, but its account does not have exactly that credit",
    ],
    [
      "a voucher that another account redeemed",
      "UPDATE vouchers SET redeemed_by = 2 WHERE id = 2",
      "voucher REDEEMED: is redeemed, but its account does not have exactly that credit",
    ],
    [
      "a redeemed voucher that is open again",
      "UPDATE vouchers SET redeemed_at = NULL, redeemed_by = NULL WHERE id = 2",
      "ledger row 2: has the ref of a voucher that its account has not redeemed",
    ],
    [
      "a credit without a voucher",
      "UPDATE ledger SET ref = 'voucher:x' WHERE id = 1",
      "ledger row 1: has the ref of a voucher that its account has not redeemed",
    ],
    [
      "a voucher that was removed",
      "DELETE FROM vouchers WHERE id = 2",
      "ledger row 2: has the ref of a voucher that its account has not redeemed",
    ],
    [
      "a voucher that was redeemed after its end",
      "UPDATE vouchers SET expires_at = redeemed_at WHERE id = 2",
      "voucher REDEEMED: has an amount or an end that a voucher cannot have",
    ],
    [
      "a redeemed voucher said to be revoked",
      "UPDATE vouchers SET revoked_at = 5 WHERE id = 2",
      "voucher REDEEMED: has an amount or an end that a voucher cannot have",
    ],
    [
      "a time out of range",
      "UPDATE vouchers SET expires_at = -5 WHERE id = 1",
      "voucher OPEN: has a time out of range",
    ],
    ["no first row", "DELETE FROM voucher_start", "voucher_start: does not have exactly one row"],
  ])("%s", async (_, statement, problem) => {
    const [open, redeemed] = await issueTwo();
    tamper(storeFolder, statement);
    const expected = problem.replace("OPEN", open).replace("REDEEMED", redeemed);
    expect(storeFolder.store.audit().problems).toContain(expected);
  });
});
