import { Database } from "bun:sqlite";
import { figuresFor } from "./plan.ts";

interface EndedRow {
  readonly id: number;
  readonly public_id: string;
  readonly status: string;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cached_tokens: number;
}

/** An answer that a client received whole, and its cost in nano-roubles. */
export interface WholeAnswer {
  readonly id: string;
  readonly charge: bigint;
}

const shownMax = 5;

/**
 * The whole answers whose charge is not in the file at `path` exactly once and in full. Each
 * is looked up by itself: the database of a long soak is too large to be read at once.
 */
export function lostCharges(path: string, whole: readonly WholeAnswer[]): string[] {
  const storeFolder = new Database(path, { readonly: true, safeIntegers: true });
  try {
    const request = storeFolder.query<{ status: string; charge: bigint }, [string]>(
      "SELECT status, charge FROM requests WHERE public_id = ? AND estimated = 0",
    );
    const charges = storeFolder.query<{ amount: bigint }, [string]>(
      "SELECT amount FROM ledger WHERE ref = ?",
    );
    return whole.flatMap(({ id, charge }) => {
      const record = request.get(id);
      const amounts = charges.all(`req:${id}`).map(({ amount }) => amount);
      const isDone = record?.status === "done" && record.charge === charge;
      if (isDone && amounts.length === 1 && amounts[0] === -charge) return [];
      return [`a client saw all of ${id} for ${charge}, which is recorded as ${amounts.join()}`];
    });
  } finally {
    storeFolder.close();
  }
}

/**
 * The problems of requests without a whole answer: those that the file at `path` has charged for, or does
 * not have. `open` are those that have not ended there yet.
 */
export function paidFor(
  path: string,
  ids: readonly string[],
): { readonly open: readonly string[]; readonly problems: readonly string[] } {
  const storeFolder = new Database(path, { readonly: true });
  try {
    const request = storeFolder.query<{ status: string; charge: number }, [string]>(
      "SELECT status, charge FROM requests WHERE public_id = ?",
    );
    const charges = storeFolder.query<{ count: number }, [string]>(
      "SELECT count(*) AS count FROM ledger WHERE ref = ?",
    );
    const open = ids.filter((id) => request.get(id)?.status === "running");
    const problems = ids.flatMap((id) => {
      if (open.includes(id)) return [];
      const record = request.get(id);
      const isFree = record?.status === "failed" && record.charge === 0;
      if (isFree && charges.get(`req:${id}`)?.count === 0) return [];
      return [`${id} was no answer, and is not recorded as one: ${JSON.stringify(record)}`];
    });
    return { open, problems };
  } finally {
    storeFolder.close();
  }
}

/**
 * Checks the requests that ended after the row `after`: the usage of a whole request, and of a client that
 * disconnected, if it is no estimate, is one that a provider sent. Returns the last row, too.
 */
export function strangeUsage(
  path: string,
  after: number,
): { readonly last: number; readonly problems: readonly string[] } {
  const storeFolder = new Database(path, { readonly: true });
  try {
    const rows = storeFolder
      .query<EndedRow, [number]>(
        `SELECT id, public_id, status, prompt_tokens, completion_tokens, cached_tokens FROM requests
         WHERE id > ? AND status IN ('done', 'cancelled') AND estimated = 0 ORDER BY id`,
      )
      .all(after);
    const strange = rows.filter((row) => {
      const { completion, cached } = figuresFor(row.prompt_tokens);
      return row.completion_tokens !== completion || row.cached_tokens !== cached;
    });
    const problems = strange.map((row) => `a usage that no provider sent: ${JSON.stringify(row)}`);
    return { last: rows.at(-1)?.id ?? after, problems: problems.slice(0, shownMax) };
  } finally {
    storeFolder.close();
  }
}
