import { and, desc, eq, isNull, lt, or, sql, type SQL } from "drizzle-orm";
import type { Connection, Dialect } from "../connection.ts";
import { accounts, vouchers } from "../schema/schema.ts";
import { NotFoundError } from "../storeError.ts";

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
  /** Only vouchers older than the one with this row id. */
  readonly before?: number | undefined;
  readonly limit?: number | undefined;
}

/** The prefix of the ref of a credit that redeems a voucher. The public id of the voucher follows. */
export const VOUCHER_REF = "voucher:";

export type VoucherTable = ReturnType<typeof voucherTable>;

export function voucherTable(connection: Connection) {
  const { db, dialect } = connection;
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
  const find = (publicId: string): Promise<VoucherRow | undefined> =>
    connection.first(select().where(eq(vouchers.publicId, publicId)));
  const findOrThrow = async (publicId: string): Promise<VoucherRow> => {
    const voucher = await find(publicId);
    if (voucher !== undefined) return voucher;
    throw new NotFoundError(
      `there is no voucher ${JSON.stringify(publicId)}: tollgate vouchers list shows them`,
    );
  };
  return {
    insert(voucher: NewVoucher): Promise<void> {
      const values = { ...voucher, id: dialect.newRowId, hash: Buffer.from(voucher.hash) };
      return connection.run(db.insert(vouchers).values(values));
    },
    findByHash: (hash: Uint8Array): Promise<VoucherRow | undefined> =>
      connection.first(select().where(eq(vouchers.hash, Buffer.from(hash)))),
    find,
    findOrThrow,
    /** For a change. Until the end of its transaction nobody redeems the voucher. Throws NotFoundError if there is none. */
    async lockOrThrow(publicId: string): Promise<VoucherRow> {
      const { id } = await findOrThrow(publicId);
      await connection.rows(`SELECT id FROM vouchers WHERE id = $id ${dialect.lockingRows}`, {
        id,
      });
      return await findOrThrow(publicId);
    },
    list({ search, before, limit }: VoucherFilter = {}): Promise<VoucherRow[]> {
      const found = select()
        .where(
          and(
            search === undefined ? undefined : contains(dialect, search),
            before === undefined ? undefined : lt(vouchers.id, before),
          ),
        )
        .orderBy(desc(vouchers.id));
      return connection.all(limit === undefined ? found : found.limit(limit));
    },
    async count(search: string | undefined): Promise<number> {
      const row = await connection.first(
        db
          .select({ rows: sql`count(*)`.mapWith(Number) })
          .from(vouchers)
          .leftJoin(accounts, eq(accounts.id, vouchers.redeemedBy))
          .where(search === undefined ? undefined : contains(dialect, search)),
      );
      return row?.rows ?? 0;
    },
    /** Returns false if the voucher was revoked before. Throws for a redeemed one. */
    async revoke(id: number, at: number): Promise<boolean> {
      const revoked = await connection.first(
        db
          .update(vouchers)
          .set({ revokedAt: at })
          .where(and(eq(vouchers.id, id), isNull(vouchers.revokedAt)))
          .returning({ id: vouchers.id }),
      );
      return revoked !== undefined;
    },
  };
}

function contains(dialect: Dialect, search: string): SQL | undefined {
  const found = [vouchers.publicId, vouchers.prefix, vouchers.note, accounts.name].map((column) =>
    dialect.contains(sql`${column}`, sql`${search}`),
  );
  return or(...found);
}
