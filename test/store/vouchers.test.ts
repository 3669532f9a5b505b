import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { hashOfCode } from "../../src/auth/voucherCode.ts";
import type { RedemptionOutcome } from "../../src/store/writer/redemption.ts";
import type { Writer } from "../../src/store/store.ts";
import { auditFile } from "../support/auditor/auditor.ts";
import { describeStores } from "../support/store/storeOnEngines.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { actor, costOfEnded, ended, fund, type Owner } from "../support/store/storeFolder.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";
import { issueVouchers, issueVoucher, type IssuedVoucher } from "../support/store/vouchers.ts";

const HUGE = 9_223_372_036_854_775_807n;

async function redeemBy(
  writer: Writer,
  voucherId: number,
  { accountId }: Pick<Owner, "accountId">,
  at: number = actor.at,
): Promise<RedemptionOutcome | undefined> {
  const redemption = { voucherId, accountId, actor: "key_test", at };
  const { redeemed } = await writer.write({ kind: "redeemVoucher", redemption });
  return redeemed;
}

describeStores("vouchers:", (current) => {
  async function redeem(
    voucher: { readonly id: number },
    owner: Pick<Owner, "accountId">,
    at?: number,
  ) {
    return await redeemBy(current.writer, voucher.id, owner, at);
  }

  async function issue(settings: Parameters<typeof issueVouchers>[2] = {}): Promise<IssuedVoucher> {
    const [voucher] = await issueVouchers(current.store, 1, settings);
    if (voucher === undefined) throw new Error("no voucher was created");
    return voucher;
  }

  async function balanceOf(account: string): Promise<bigint> {
    return (await current.store.accounts.findOrThrow(account)).balance;
  }

  describe("a redemption", () => {
    test("credits the account once, with a ref and the key", async () => {
      const alice = await current.fund("alice", 10n);
      const bob = await current.fund("bob", 0n);
      const voucher = await issue({ note: "card 7" });
      expect(await redeem(voucher, alice)).toBe("applied");
      expect(await redeem(voucher, alice, actor.at + 5)).toBe("repeated");
      expect(await redeem(voucher, bob)).toBe("refused");
      expect([await balanceOf("alice"), await balanceOf("bob")]).toEqual([510n, 0n]);
      expect(await current.store.ledger.history(alice.accountId, 1)).toMatchObject([
        { kind: "credit", amount: 500n, ref: `voucher:${voucher.publicId}`, actor: "key_test" },
      ]);
      const hash = hashOfCode(voucher.code) ?? new Uint8Array();
      expect(await current.store.vouchers.findByHash(hash)).toMatchObject({
        redeemedAt: actor.at,
        redeemedBy: "alice",
        note: "card 7",
      });
    });

    test.each<[string, RedemptionOutcome]>([
      ["revoked", "refused"],
      ["expired", "refused"],
      ["unknown", "refused"],
      ["more than the balance can take", "too_large"],
    ])("of a voucher that is %s is %s", async (state, outcome) => {
      const { admin } = current.store;
      const alice = await current.fund("alice", 10n);
      const expiresAt = actor.at + 1000;
      const { id, publicId } = await issue({ expiresAt });
      if (state === "revoked") await admin.revokeVoucher(actor, publicId);
      if (state.startsWith("more"))
        await admin.setAccount(actor, "alice", { overdraft: HUGE - 10n });
      const voucher = { id: state === "unknown" ? 99 : id };
      const at = state === "expired" ? expiresAt : actor.at;
      expect(await redeem(voucher, alice, at)).toBe(outcome);
      expect(await balanceOf("alice")).toBe(10n);
    });

    test("of one voucher by two accounts at once, fifty times: one credit", async () => {
      const accounts = [await current.fund("alice", 0n), await current.fund("bob", 0n)] as const;
      const voucher = await issue();
      const outcomes = await Promise.all(
        Array.from({ length: 50 }, (_, index) => redeem(voucher, accounts[index % 2 ? 1 : 0])),
      );
      expect(outcomes.filter((outcome) => outcome === "applied")).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome === "repeated")).toHaveLength(24);
      expect((await balanceOf("alice")) + (await balanceOf("bob"))).toBe(500n);
    });

    test("shares a transaction with charges of the account", async () => {
      const alice = await current.fund("alice", 1_000_000n);
      const vouchers = await issueVouchers(current.store, 20);
      await current.reserve(alice.accountId, 500_000n);
      const charge = (id: string): Promise<unknown> =>
        current.writer.write({ kind: "recordRequest", record: ended(id, alice) });
      const outcomes = await Promise.all(
        vouchers.flatMap((voucher) => [charge(`req_${voucher.publicId}`), redeem(voucher, alice)]),
      );
      expect(outcomes.filter((outcome) => outcome === "applied")).toHaveLength(20);
      expect(await balanceOf("alice")).toBe(1_000_000n + 20n * (500n - costOfEnded));
    });

    test("in a batch with a refused operation is applied once", async () => {
      const alice = await current.fund("alice", 100n);
      const voucher = await issue();
      // Nothing is reserved for this charge.
      const record = ended("req_1", alice);
      const refused = current.writer.write({ kind: "recordRequest", record });
      const applied = redeem(voucher, alice);
      const failure = await refused.catch(({ failure }: { failure: string }) => failure);
      expect(failure).toBe("insufficient");
      expect(await applied).toBe("applied");
      expect(await balanceOf("alice")).toBe(600n);
    });

    test("and a revocation by a command at once: one of them", async () => {
      const alice = await current.fund("alice", 0n);
      for (const voucher of await issueVouchers(current.store, 30)) {
        const redemption = redeem(voucher, alice);
        let isRevoked = true;
        try {
          await current.store.admin.revokeVoucher(actor, voucher.publicId);
        } catch (error) {
          expect(String(error)).toContain("was redeemed by account");
          isRevoked = false;
        }
        expect(await redemption).toBe(isRevoked ? "refused" : "applied");
      }
    });
  });

  describe("the changes of commands", () => {
    test("are in the admin log, one row for each voucher, without a code", async () => {
      const vouchers = await issueVouchers(current.store, 2, { expiresAt: actor.at + 1000 });
      const { publicId = "" } = vouchers[0] ?? {};
      const revoke = async () => await current.store.admin.revokeVoucher(actor, publicId);
      const first = await revoke();
      expect(first).toMatchObject({ applied: true, voucher: { revokedAt: actor.at } });
      expect(await revoke()).toEqual({ ...first, applied: false });
      const detail = "0.0000005, expires 2026-01-01T00:00:01.000Z";
      const created = vouchers.map((voucher) => {
        return { subject: voucher.publicId, detail };
      });
      expect(await current.adminLog()).toMatchObject([
        ...created,
        { subject: publicId, detail: null },
      ]);
    });

    test("create all vouchers or none", async () => {
      const { publicId } = await issue();
      const codes = ["vch_new", publicId].map((id) => {
        return { publicId: id, hash: new Uint8Array(32).fill(id.length), prefix: "00000" };
      });
      const settings = { amount: 5n, note: null, expiresAt: null };
      const create = async () =>
        await current.store.admin.createVouchers(actor, { ...settings, codes });
      expect(create()).rejects.toThrow(/there already|unique/i);
      expect(await current.store.vouchers.list()).toHaveLength(1);
      expect(await current.adminLog()).toHaveLength(1);
    });

    test("revoke no voucher that is redeemed, or that is not there", async () => {
      const revoke = async (id: string) => await current.store.admin.revokeVoucher(actor, id);
      const alice = await current.fund("alice", 0n);
      const voucher = await issue();
      await redeem(voucher, alice);
      expect(revoke(voucher.publicId)).rejects.toThrow(
        'was redeemed by account "alice" at 2026-01-01T00:00:00.000Z: tollgate balance debit alice 0.0000005',
      );
      expect(revoke("vch_x")).rejects.toThrow('no voucher "vch_x": tollgate vouchers list');
    });

    test.each([
      ["vch_", 3],
      ["CARD", 1],
      ["ALI", 1],
      ["nothing", 0],
      ["%", 0],
    ])("a list with %s has %i", async (search, count) => {
      const { vouchers } = current.store;
      const alice = await current.fund("alice", 0n);
      const first = await issue();
      await issue();
      await issue({ note: "Card 7" });
      await redeem(first, alice);
      expect(await vouchers.list({ search })).toHaveLength(count);
      expect(await vouchers.list({ search, limit: 1 })).toHaveLength(Math.min(count, 1));
      expect(await vouchers.count(search)).toBe(count);
    });
  });
});

describe("in the file of SQLite", () => {
  /** Of two vouchers: the first one (row 1) is open, the second one (row 2) is redeemed by alice. */
  let open: string;
  let redeemed: string;
  const storeFolder = openStoreBefore({
    audited: false,
    async fill({ store, writer }) {
      const alice = await fund(store, "alice", 10n);
      await fund(store, "bob", 0n);
      open = (await issueVoucher(store)).publicId;
      const second = await issueVoucher(store);
      await redeemBy(writer, second.id, alice);
      redeemed = second.publicId;
    },
  });

  /** No problem for the audit and for the auditor of the tests. */
  async function expectAuditClean(): Promise<void> {
    expect((await storeFolder.store.auditHere()).problems).toEqual([]);
    expect(auditFile(storeFolder.path)).toEqual([]);
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
      const sqlite = new Database(storeFolder.path, { readwrite: true });
      const run = sqlite.transaction(() => {
        for (const statement of statements.split("; ")) sqlite.run(statement);
      });
      expect(run).toThrow(message);
      sqlite.close();
      await expectAuditClean();
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
      tamper(storeFolder, statement);
      const expected = problem.replace("OPEN", open).replace("REDEEMED", redeemed);
      expect((await storeFolder.store.auditHere()).problems).toContain(expected);
    });
  });
});
