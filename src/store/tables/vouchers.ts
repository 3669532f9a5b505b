import { and, desc, eq, isNull, or, sql, type SQL } from "drizzle-orm";
import { accounts, newRowId, vouchers } from "../schema/schema.ts";
import { NotFoundError, type Connection } from "../sqlite/sqlite.ts";

/** Without the hash of its code. `amount` is nano-roubles. `redeemedBy` is the name of an account. */
export interface VoucherRow {
  id: number;
  publicId: string;
  prefix: string;
  amount: bigint;
  note: string | null;
  createdAt: number;
  expiresAt: number | null;
  revokedAt: number | null;
  redeemedAt: number | null;
  redeemedById: number | null;
  redeemedBy: string | null;
}

export interface NewVoucher {
  publicId: string;
  hash: Uint8Array;
  prefix: string;
  amount: bigint;
  note: string | null;
  createdAt: number;
  expiresAt: number | null;
}

/** Which vouchers a list has. An absent filter allows all. */
export interface VoucherFilter {
  /** A part of the id, of the first characters of the code, of the note or of the account's name, in any case of ASCII. */
  readonly search?: string | undefined;
  readonly limit?: number | undefined;
}

export interface VoucherTable {
  insert(voucher: NewVoucher): void;
  /** Finds a voucher by the SHA-256 of its code: one point read. */
  findByHash(hash: Uint8Array): VoucherRow | undefined;
  find(publicId: string): VoucherRow | undefined;
  /** Throws NotFoundError if there is no such voucher. */
  findOrThrow(publicId: string): VoucherRow;
  /** Newest first. */
  list(filter?: VoucherFilter): VoucherRow[];
  /** The number of all vouchers that a list without a limit has. */
  count(search: string | undefined): number;
  /** Revokes an open voucher. Returns false if it was revoked before. Throws for a redeemed one. */
  revoke(id: number, at: number): boolean;
}

/** The prefix of the ref of a credit that redeems a voucher. The public id of the voucher follows. */
export const VOUCHER_REF = "voucher:";

export function voucherTable({ db }: Connection): VoucherTable {
  const columns = {
    id: vouchers.id,
    publicId: vouchers.publicId,
    prefix: vouchers.prefix,
    amount: vouchers.amount,
    note: vouchers.note,
    createdAt: vouchers.createdAt,
    expiresAt: vouchers.expiresAt,
    revokedAt: vouchers.revokedAt,
    redeemedAt: vouchers.redeemedAt,
    redeemedById: vouchers.redeemedBy,
    redeemedBy: accounts.name,
  };
  const select = () =>
    db.select(columns).from(vouchers).leftJoin(accounts, eq(accounts.id, vouchers.redeemedBy));
  const find = (publicId: string): VoucherRow | undefined =>
    select().where(eq(vouchers.publicId, publicId)).get();
  return {
    insert(voucher) {
      db.insert(vouchers)
        .values({ ...voucher, id: newRowId, hash: Buffer.from(voucher.hash) })
        .run();
    },
    findByHash: (hash) =>
      select()
        .where(eq(vouchers.hash, Buffer.from(hash)))
        .get(),
    find,
    findOrThrow(publicId) {
      const voucher = find(publicId);
      if (voucher !== undefined) return voucher;
      throw new NotFoundError(
        `there is no voucher ${JSON.stringify(publicId)}: tollgate vouchers list shows them`,
      );
    },
    list({ search, limit = -1 } = {}) {
      return select()
        .where(search === undefined ? undefined : contains(search))
        .orderBy(desc(vouchers.id))
        .limit(limit)
        .all();
    },
    count: (search) =>
      db
        .select({ rows: sql`count(*)`.mapWith(Number) })
        .from(vouchers)
        .leftJoin(accounts, eq(accounts.id, vouchers.redeemedBy))
        .where(search === undefined ? undefined : contains(search))
        .get()?.rows ?? 0,
    revoke: (id, at) =>
      db
        .update(vouchers)
        .set({ revokedAt: at })
        .where(and(eq(vouchers.id, id), isNull(vouchers.revokedAt)))
        .returning({ id: vouchers.id })
        .get() !== undefined,
  };
}

/** SQLite's `lower` changes ASCII only. */
function contains(search: string): SQL | undefined {
  const found = [vouchers.publicId, vouchers.prefix, vouchers.note, accounts.name].map(
    (column) => sql`instr(lower(${column}), lower(${search})) > 0`,
  );
  return or(...found);
}
