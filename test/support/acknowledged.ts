import { Database } from "bun:sqlite";
import { auditStore } from "../../src/store/audit.ts";
import { connect } from "../../src/store/sqlite.ts";
import type { WholeAnswer } from "./mixedLoad.ts";

/** What somebody was told is done: answers that clients saw whole, and refs of credits that were booked. */
export interface Acknowledged {
  readonly whole: readonly WholeAnswer[];
  readonly refs: readonly string[];
}

interface ChargeRow {
  readonly amount: bigint;
}

interface RequestRow {
  readonly status: string;
  readonly charge: bigint;
  readonly estimated: bigint;
}

/** The acknowledged answers whose charge the file at `path` does not have, exactly once and in full. */
export function lostCharges(path: string, whole: readonly WholeAnswer[]): string[] {
  const books = new Database(path, { readonly: true, safeIntegers: true });
  try {
    const request = books.query<RequestRow, [string]>(
      "SELECT status, charge, estimated FROM requests WHERE public_id = ?",
    );
    const charges = books.query<ChargeRow, [string]>("SELECT amount FROM ledger WHERE ref = ?");
    return whole.flatMap(({ id, charge }) => {
      const record = request.get(id);
      const rows = charges.all(`req:${id}`);
      const isDone =
        record?.status === "done" && record.charge === charge && record.estimated === 0n;
      if (isDone && rows.length === 1 && rows[0]?.amount === -charge) return [];
      return [`a client saw all of ${id} for ${charge}: ${textOf({ record, rows })}`];
    });
  } finally {
    books.close();
  }
}

/** Everything that is wrong with the books of a gateway that has nothing to do. */
export function problemsOf(path: string, { whole, refs }: Acknowledged): string[] {
  const connection = connect(path, "process");
  try {
    const credits = connection.sqlite.query<{ count: bigint }, [string]>(
      "SELECT count(*) AS count FROM ledger WHERE ref = ? AND kind = 'credit'",
    );
    const lost = refs.filter((ref) => credits.get(ref)?.count !== 1n);
    return [
      ...lostCharges(path, whole),
      ...lost.map((ref) => `credit ${ref} was acknowledged and is not there once`),
      ...auditStore(connection, { atRest: true }).problems,
    ];
  } finally {
    connection.sqlite.close();
  }
}

function textOf(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? String(one) : one));
}
