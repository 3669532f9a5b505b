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
    const request = storeFolder.query<ChargedRow, [string]>(
      "SELECT status, charge, ledger_seq FROM requests WHERE public_id = ? AND estimated = 0",
    );
    const folded = storeFolder.query("SELECT 1 FROM ledger WHERE ref = ?");
    return whole.flatMap(({ id, charge }) => {
      const record = request.get(id);
      const isCharged = record?.status === "done" && record.charge === charge;
      if (isCharged && record.ledger_seq !== null && folded.get(`req:${id}`) === null) return [];
      return [`a client saw all of ${id} for ${charge}, which is recorded as ${shown(record)}`];
    });
  } finally {
    storeFolder.close();
  }
}

interface ChargedRow {
  readonly status: string;
  readonly charge: bigint;
  readonly ledger_seq: bigint | null;
}

function shown(row: ChargedRow | null): string {
  return row === null ? "nothing" : Object.values(row).join(" ");
}

/**
 * The problems of requests without a whole answer: those that the file at `path` has charged for. `open` are those that
 * have not ended there yet.
 */
export function paidFor(
  path: string,
  ids: readonly string[],
): { readonly open: readonly string[]; readonly problems: readonly string[] } {
  const storeFolder = new Database(path, { readonly: true, safeIntegers: true });
  try {
    const request = storeFolder.query<ChargedRow, [string]>(
      "SELECT status, charge, ledger_seq FROM requests WHERE public_id = ?",
    );
    const open = ids.filter((id) => (request.get(id)?.status ?? "running") === "running");
    const problems = ids.flatMap((id) => {
      if (open.includes(id)) return [];
      const record = request.get(id);
      const isFree = record?.status === "failed" && record.charge === 0n;
      if (isFree && record.ledger_seq === null) return [];
      return [`${id} was no answer, and is recorded as ${shown(record)}`];
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
