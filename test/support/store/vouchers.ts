import { hashOfCode, issueCode } from "../../../src/auth/voucherCode.ts";
import { idMaker, systemRandom } from "../../../src/lib/random.ts";
import { systemClock } from "../../../src/lib/clock.ts";
import type { SqliteStore, Store, VoucherRow } from "../../../src/store/store.ts";
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

/** Creates vouchers of 500 nano-roubles, unless `settings` has another amount. They do not expire, and have no note. */
export function issueVouchers(
  store: SqliteStore,
  count: number,
  settings: Settings = {},
): IssuedVoucher[] {
  const { created, codes } = newVouchers(count, settings);
  return withCodes(store.admin.createVouchers(actor, created), codes);
}

/** The same in a store of either engine. */
export async function issueIn(
  { admin }: Store,
  count: number,
  settings: Settings = {},
): Promise<IssuedVoucher[]> {
  const { created, codes } = newVouchers(count, settings);
  return withCodes(await admin.createVouchers(actor, created), codes);
}

function newVouchers(count: number, settings: Settings) {
  const issued = Array.from({ length: count }, () => issueCode(systemRandom));
  const codes = issued.map(({ hash, prefix }) => ({ publicId: newId("vch"), hash, prefix }));
  const created = { amount: 500n, note: null, expiresAt: null, ...settings, codes };
  return { created, codes: issued.map(({ code }) => code) };
}

function withCodes(rows: readonly VoucherRow[], codes: readonly string[]): IssuedVoucher[] {
  return rows.map((row, index) => Object.assign(row, { code: codes[index] ?? "" }));
}

export function issueVoucher(store: SqliteStore, settings: Settings = {}): IssuedVoucher {
  const [voucher] = issueVouchers(store, 1, settings);
  if (voucher === undefined) throw new Error("no voucher was created");
  return voucher;
}

/** The voucher of a code as the store has it now. */
export function voucherOf(store: SqliteStore, code: string): VoucherRow | undefined {
  const hash = hashOfCode(code);
  return hash && store.vouchers.findByHash(hash);
}
