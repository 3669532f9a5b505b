/** Rules about vouchers and the credits that redeem them. Older refs with the prefix are the operator's own. */
export const voucherChecks = [
  {
    problem: "is redeemed, but its account does not have exactly that credit",
    query: `SELECT 'voucher ' || v.public_id AS subject FROM vouchers v
      WHERE (v.redeemed_at IS NOT NULL OR v.redeemed_by IS NOT NULL)
        AND (SELECT count(*) FROM ledger l WHERE l.ref = 'voucher:' || v.public_id AND l.kind = 'credit'
          AND l.amount = v.amount AND l.account_id = v.redeemed_by AND l.at = v.redeemed_at) <> 1`,
  },
  {
    problem: "has the ref of a voucher that its account has not redeemed",
    query: `SELECT 'ledger row ' || l.id AS subject FROM ledger l
      LEFT JOIN vouchers v ON v.public_id = substr(l.ref, length('voucher:') + 1)
      WHERE substr(l.ref, 1, 8) = 'voucher:' AND l.id > (SELECT ledger_id FROM voucher_start)
        AND (l.kind <> 'credit' OR v.redeemed_by IS DISTINCT FROM l.account_id OR v.amount IS DISTINCT FROM l.amount)`,
  },
  {
    problem: "has an amount or an end that a voucher cannot have",
    query: `SELECT 'voucher ' || public_id AS subject FROM vouchers
      WHERE amount <= 0 OR (redeemed_at IS NULL) <> (redeemed_by IS NULL)
        OR (redeemed_at IS NOT NULL AND revoked_at IS NOT NULL) OR redeemed_at >= expires_at`,
  },
];
