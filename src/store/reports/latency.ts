import type { Connection, TimeSpan } from "../connection.ts";

/** Milliseconds at which 50 and 95 of 100 requests are done. */
export interface Percentiles {
  readonly p50: number;
  readonly p95: number;
}

export interface Latencies {
  readonly firstByte: Percentiles | undefined;
  readonly duration: Percentiles | undefined;
}

/** What one done request took. `firstByteMs` is null for some. */
export interface Measured {
  readonly at: number;
  readonly provider: string;
  readonly firstByteMs: number | null;
  readonly durationMs: number;
  readonly attempts: number;
}

/** The done requests of a span, or an evenly spaced part of them. */
export interface LatencySample {
  readonly measured: readonly Measured[];
  readonly isAll: boolean;
}

/** A span with more rows than this is sampled. */
const READ_MAX = 20_000;
const SAMPLED = 10_000;

/**
 * A row gets its id when its request ends, or a second after its admission. So ids and times grow together, but not
 * strictly. The first and the last id of a span are among this many rows at its ends.
 */
const OUT_OF_ORDER_MAX = 1000;

const COLUMNS = "at, coalesce(provider, ''), first_byte_ms, duration_ms, attempt_count";
const IS_MEASURED = "status = 'done' AND duration_ms IS NOT NULL";

/** Reads all done requests of a short span, and an evenly spaced part of the rows of a long one. */
export async function readLatencies(
  connection: Connection,
  span: TimeSpan,
): Promise<LatencySample> {
  const ids = await idsOf(connection, span);
  if (ids === undefined) return { measured: [], isAll: true };
  const inSpan = `at >= ${span.from} AND at < ${span.to} AND ${IS_MEASURED}`;
  const rows = ids.last - ids.first + 1;
  const isAll = rows <= READ_MAX;
  const stride = Math.ceil(rows / SAMPLED);
  const query = isAll
    ? `SELECT ${COLUMNS} FROM requests WHERE ${inSpan}`
    : `WITH RECURSIVE sampled (place) AS (
        SELECT CAST(${ids.first} AS bigint) UNION ALL
        SELECT place + ${stride} FROM sampled WHERE place + ${stride} <= ${ids.last})
      SELECT ${COLUMNS} FROM requests WHERE id IN (SELECT place FROM sampled) AND ${inSpan}`;
  const rowsRead =
    await connection.plainRows<[number, string, number | null, number, number]>(query);
  const measured = rowsRead.map(([at, provider, firstByteMs, durationMs, attempts]): Measured => ({
    at,
    provider,
    firstByteMs,
    durationMs,
    attempts,
  }));
  return { measured, isAll };
}

/** The range of row ids of a span. Some rows at its ends may lie outside the span. Undefined: no request. */
export async function idsOf(
  connection: Connection,
  { from, to }: TimeSpan,
): Promise<{ readonly first: number; readonly last: number } | undefined> {
  const end = (order: "ASC" | "DESC", of: "min" | "max"): string =>
    `(SELECT ${of}(id) FROM (SELECT id FROM requests WHERE at >= ${from} AND at < ${to} ORDER BY at ${order}, id ${order} LIMIT ${OUT_OF_ORDER_MAX}) AS ends)`;
  const [row] = await connection.plainRows<[number | null, number | null]>(
    `SELECT ${end("ASC", "min")}, ${end("DESC", "max")}`,
  );
  const [first, last] = row ?? [null, null];
  return first === null || last === null ? undefined : { first, last };
}

export function latenciesOf(measured: readonly Measured[]): Latencies {
  const firstBytes = measured.flatMap(({ firstByteMs }) => firstByteMs ?? []);
  return {
    firstByte: percentiles(firstBytes),
    duration: percentiles(measured.map(({ durationMs }) => durationMs)),
  };
}

/** By the nearest rank: always the value of one request. */
function percentiles(values: readonly number[]): Percentiles | undefined {
  if (values.length === 0) return undefined;
  const sorted = Float64Array.from(values).sort();
  const at = (percent: number): number =>
    sorted[Math.ceil((sorted.length * percent) / 100) - 1] ?? 0;
  return { p50: at(50), p95: at(95) };
}
