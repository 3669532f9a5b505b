import { hashOfCode, issueCode } from "../auth/voucherCode.ts";
import {
  createdVoucherDocument,
  revokedVoucherDocument,
  voucherDocument,
  type CreatedVoucherDocument,
  type RevokedVoucherDocument,
  type VoucherDocument,
} from "../contract/operator/voucher.ts";
import { systemClock } from "../lib/clock.ts";
import { idMaker, systemRandom } from "../lib/random.ts";
import type { Operator } from "./operator.ts";
import { InvalidValue, wholeNumber } from "./values.ts";

/** The most vouchers that one change creates. */
const VOUCHERS_MAX = 1000;

/** Reads how many vouchers to create. Throws InvalidValue. */
export const voucherCount = wholeNumber(1, VOUCHERS_MAX);

/** The id of a voucher. A code that is given instead of its id is secret, so no message repeats it. Throws InvalidValue. */
export function voucherId(text: string): string {
  if (hashOfCode(text) === undefined) return text;
  throw new InvalidValue(
    "this is a code, not a voucher id: `tollgate vouchers list` shows the id beside the first characters of each code",
  );
}

/** Creates vouchers with codes, which no other function returns. `amount` is nano-roubles. */
export async function createVouchers(
  { store, actor }: Operator,
  settings: {
    readonly amount: bigint;
    readonly count?: number | undefined;
    readonly expiresAt?: number | undefined;
    readonly note?: string | undefined;
  },
): Promise<CreatedVoucherDocument[]> {
  const { amount, count = 1, expiresAt = null, note = null } = settings;
  const newId = idMaker(systemClock, systemRandom);
  const issued = Array.from({ length: count }, () => {
    return { publicId: newId("vch"), ...issueCode(systemRandom) };
  });
  const codes = issued.map(({ publicId, hash, prefix }) => ({ publicId, hash, prefix }));
  const rows = await store.admin.createVouchers(actor, { amount, expiresAt, note, codes });
  return rows.map((row, index) => createdVoucherDocument(row, issued[index]?.code ?? "", actor.at));
}

/**
 * Vouchers, the newest first, and how many there are without the limit. `search`: a part of the id, of the first characters
 * of the code, of the note or of the account's name, or a whole code.
 */
export async function listVouchers(
  { store, actor }: Operator,
  { search, limit }: { readonly search?: string | undefined; readonly limit?: number } = {},
): Promise<{ readonly vouchers: readonly VoucherDocument[]; readonly total: number }> {
  const hash = search === undefined ? undefined : hashOfCode(search);
  const found = hash && (await store.vouchers.findByHash(hash));
  const ofCode = found ? [found] : [];
  const rows = hash ? ofCode : await store.vouchers.list({ search, limit });
  return {
    vouchers: rows.map((row) => voucherDocument(row, actor.at)),
    total: hash ? rows.length : await store.vouchers.count(search),
  };
}

/** Throws StoreError for a voucher that is redeemed. */
export async function revokeVoucher(
  { store, actor }: Operator,
  id: string,
): Promise<RevokedVoucherDocument> {
  const { voucher, applied } = await store.admin.revokeVoucher(actor, id);
  return revokedVoucherDocument(voucher, applied, actor.at);
}
