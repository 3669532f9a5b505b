import type { DatabaseRows, LedgerRow, VoucherRow } from "./databaseRows.ts";

const HEAD = "voucher:";

/** Each redeemed voucher has its one credit, and each such credit its voucher. */
export function voucherProblems({ vouchers, ledger, voucherStart }: DatabaseRows): string[] {
  const known = new Map(vouchers.map((voucher) => [voucher.publicId, voucher]));
  const credits = new Map<string, LedgerRow[]>();
  const problems: string[] = [];
  for (const row of ledger) {
    if (row.ref?.startsWith(HEAD) !== true || (row.id ?? 0n) <= voucherStart) continue;
    const name = row.ref.slice(HEAD.length);
    credits.set(name, [...(credits.get(name) ?? []), row]);
    if (!known.has(name)) problems.push(`ledger row ${row.id} is of no voucher`);
  }
  return [
    ...problems,
    ...vouchers.flatMap((voucher) => endProblems(voucher, credits.get(voucher.publicId) ?? [])),
  ];
}

function endProblems(voucher: VoucherRow, credits: readonly LedgerRow[]): string[] {
  const { publicId, amount, expiresAt, revokedAt, redeemedAt, redeemedBy } = voucher;
  const problems: string[] = [];
  if (amount <= 0n) problems.push(`voucher ${publicId} is of ${amount}`);
  if (redeemedAt === null) {
    if (redeemedBy !== null) problems.push(`voucher ${publicId} was redeemed at no time`);
    if (credits.length > 0)
      problems.push(`voucher ${publicId} is not redeemed, and has ${credits.length} credits`);
    return problems;
  }
  if (revokedAt !== null) problems.push(`voucher ${publicId} is redeemed and revoked`);
  if (expiresAt !== null && redeemedAt >= expiresAt)
    problems.push(`voucher ${publicId} was redeemed after its end`);
  const [credit] = credits;
  const isRight =
    credits.length === 1 &&
    credit?.kind === "credit" &&
    credit.amount === amount &&
    credit.account === redeemedBy;
  if (!isRight) problems.push(`voucher ${publicId} of ${amount} is redeemed without its credit`);
  return problems;
}
