import { describe, expect, test } from "bun:test";
import {
  checkVoucherRedemption,
  redemptionForm,
} from "../../src/contract/account/voucherRedemption.ts";
import { voucherDocument } from "../../src/contract/operator/voucher.ts";
import { refusalOf } from "./refusal.ts";

const nowMs = Date.UTC(2026, 10, 24);
const open = {
  publicId: "vch_01",
  prefix: "7Q2MV",
  amount: 500_000_000_000n,
  note: null,
  createdAt: nowMs - 2000,
  expiresAt: null,
  revokedAt: null,
  redeemedAt: null,
  redeemedBy: null,
};

describe("a voucher", () => {
  test.each([
    ["open", {}],
    ["open", { expiresAt: nowMs + 1 }],
    ["expired", { expiresAt: nowMs }],
    ["revoked", { revokedAt: nowMs - 1000, expiresAt: nowMs - 500 }],
    ["redeemed", { redeemedAt: nowMs - 1000, redeemedBy: "alice", expiresAt: nowMs - 500 }],
  ] as const)("is %s: %o", (state, change) => {
    const voucher = { ...open, ...change };
    const document = voucherDocument(voucher, nowMs);
    expect(document).toMatchObject({ state, amount_rub: "500" });
  });
});

describe("the body of a redemption", () => {
  test.each<[Record<string, unknown>, string]>([
    [{}, "code is required"],
    [{ code: "" }, "code must not be empty"],
    [{ code: null }, "code must be a string"],
    [{ code: ["7Q2MV"] }, "code must be a string"],
    [{ code: "7Q2MV", amount: 5 }, "only the field code is accepted"],
    [{ "7Q2MV-0X9TB": true }, "only the field code is accepted"],
    [{ Code: "7Q2MV" }, "only the field code is accepted"],
  ])("%j is refused: %s", async (body, message) => {
    expect((await refusalOf(() => checkVoucherRedemption(body)))?.message).toBe(message);
  });
});

test("the answer to a redemption has the money of the account", () => {
  const redemption = { voucher: "vch_01", amount: 500_000_000_000n, applied: true };
  const account = { balance: 750_500_000_000n, reserved: 500_000_000n };
  const answer = redemptionForm(redemption, account, 750_000_000_000n);
  expect(answer).toEqual({
    object: "voucher_redemption",
    voucher: "vch_01",
    applied: true,
    amount_rub: "500",
    balance_rub: "750.5",
    held_rub: "0.5",
    available_rub: "750",
  });
});
