import type { DatabasePlace } from "../auditor/databaseRows.ts";
import { rowsAt } from "../store/gatewayDatabase.ts";
import { figuresFor } from "./plan.ts";

interface EndedRow {
  readonly id: bigint;
  readonly public_id: string;
  readonly prompt_tokens: bigint;
  readonly completion_tokens: bigint;
  readonly cached_tokens: bigint;
}

/** An answer that a client received whole, and its cost in nano-roubles. */
export interface WholeAnswer {
  readonly id: string;
  readonly charge: bigint;
}

const shownMax = 5;

/** The whole answers whose charge is not in the database exactly once and in full. */
export async function lostCharges(
  place: DatabasePlace,
  whole: readonly WholeAnswer[],
): Promise<string[]> {
  const ids = whole.map(({ id }) => id);
  const charged = await chargesOf(place, ids);
  const folded = await rowsAt<{ ref: string }>(
    place,
    `SELECT ref FROM ledger WHERE ref IN (${listed(ids.map((id) => `req:${id}`))})`,
  );
  const twice = new Set(folded.map(({ ref }) => ref));
  return whole.flatMap(({ id, charge }) => {
    const record = charged.get(id);
    const isCharged =
      record?.status === "done" && record.estimated === 0n && record.charge === charge;
    if (isCharged && record.ledger_seq !== null && !twice.has(`req:${id}`)) return [];
    return [`a client saw all of ${id} for ${charge}, which is recorded as ${shown(record)}`];
  });
}

interface ChargedRow {
  readonly id: string;
  readonly status: string;
  readonly charge: bigint;
  readonly estimated: bigint;
  readonly ledger_seq: bigint | null;
}

/** By id, of these requests alone: the database of a long soak is too large to be read at once. */
async function chargesOf(
  place: DatabasePlace,
  ids: readonly string[],
): Promise<ReadonlyMap<string, ChargedRow>> {
  const rows = await rowsAt<ChargedRow>(
    place,
    `SELECT public_id AS id, status, charge, estimated, ledger_seq FROM requests WHERE public_id IN (${listed(ids)})`,
  );
  return new Map(rows.map((row) => [row.id, row]));
}

/** A list of texts in SQL, which is not empty: PostgreSQL has no empty list. */
function listed(texts: readonly string[]): string {
  return ["", ...texts].map((text) => `'${text}'`).join(", ");
}

function shown(row: object | undefined): string {
  return row === undefined ? "nothing" : Object.values(row).join(" ");
}

/**
 * The problems of requests without a whole answer: those that the database has charged for. `open` are those that have
 * not ended there yet.
 */
export async function paidFor(
  place: DatabasePlace,
  ids: readonly string[],
): Promise<{ readonly open: readonly string[]; readonly problems: readonly string[] }> {
  const charged = await chargesOf(place, ids);
  const isOpen = (id: string): boolean => (charged.get(id)?.status ?? "running") === "running";
  const problems = ids.flatMap((id) => {
    if (isOpen(id)) return [];
    const record = charged.get(id);
    const isFree = record?.status === "failed" && record.charge === 0n;
    if (isFree && record.ledger_seq === null) return [];
    // A time-out of the gateway cut it after content: what was delivered is charged.
    if (record?.status === "cancelled") return [];
    return [`${id} was no answer, and is recorded as ${shown(record)}`];
  });
  return { open: ids.filter(isOpen), problems };
}

/**
 * Checks the requests that ended after the row `after`: the usage of a whole request, and of a client that
 * disconnected, if it is no estimate, is one that a provider sent. Returns the last row, too.
 */
export async function strangeUsage(
  place: DatabasePlace,
  after: bigint,
): Promise<{ readonly last: bigint; readonly problems: readonly string[] }> {
  const rows = await rowsAt<EndedRow>(
    place,
    `SELECT id, public_id, prompt_tokens, completion_tokens, cached_tokens FROM requests
     WHERE id > ${after} AND status IN ('done', 'cancelled') AND estimated = 0 ORDER BY id`,
  );
  const strange = rows.filter((row) => {
    const { completion, cached } = figuresFor(Number(row.prompt_tokens));
    return row.completion_tokens !== BigInt(completion) || row.cached_tokens !== BigInt(cached);
  });
  const problems = strange.map((row) => `a usage that no provider sent: ${shown(row)}`);
  return { last: rows.at(-1)?.id ?? after, problems: problems.slice(0, shownMax) };
}
