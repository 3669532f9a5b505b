import { hashOfCode, issueCode } from "../../../src/auth/voucherCode.ts";
import { idMaker, systemRandom } from "../../../src/lib/random.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import type { SqliteStore } from "../../../src/store/open.ts";
import type { Store, VoucherRow } from "../../../src/store/store.ts";
import { actor } from "./storeFolder.ts";

const newId = idMaker(systemClock, systemRandom);

/** A voucher with its code. */
export interface IssuedVoucher extends VoucherRow {
  readonly code: string;
}

interface Settings {
  readonly amount?: bigint;
  readonly note?: string;
  readonly expiresAt?: number;
}

/** Creates vouchers in a store of either engine: of 500 nano-roubles, unless `settings` has another amount. They do not expire, and have no note. */
export async function issueVouchers(
  { admin }: Pick<Store, "admin">,
  count: number,
  settings: Settings = {},
): Promise<IssuedVoucher[]> {
  const issued = Array.from({ length: count }, () => issueCode(systemRandom));
  const codes = issued.map(({ hash, prefix }) => ({ publicId: newId("vch"), hash, prefix }));
  const created = { amount: 500n, note: null, expiresAt: null, ...settings, codes };
  const rows = await admin.createVouchers(actor, created);
  return rows.map((row, index) => Object.assign(row, { code: issued[index]?.code ?? "" }));
}

/** The same for one voucher. */
export async function issueVoucher(
  store: Pick<Store, "admin">,
  settings: Settings = {},
): Promise<IssuedVoucher> {
  const [voucher] = await issueVouchers(store, 1, settings);
  if (voucher === undefined) throw new Error("no voucher was created");
  return voucher;
}

/** The voucher of a code as the store has it now. */
export async function voucherOf(store: SqliteStore, code: string): Promise<VoucherRow | undefined> {
  const hash = hashOfCode(code);
  return hash && (await store.vouchers.findByHash(hash));
}
