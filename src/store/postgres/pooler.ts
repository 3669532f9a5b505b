import type { ReservedSQL, SQL } from "bun";
import { useInstead } from "../../config/database.ts";
import type { ServerPlace } from "../../config/schema.ts";
import { PooledError } from "../storeError.ts";
import { messageOf, sqlState } from "./writer/failures.ts";

type ShownPlace = Pick<ServerPlace, "url" | "shownUrl">;

/** The statements of one connection ran in several sessions of the server. */
export class SharedSession extends Error {
  override readonly name = "SharedSession";
}

/** A server gives a process to each connection, and its number to another one only later. */
const SERVER_PROCESS =
  "SELECT concat(pg_backend_pid(), ' ', backend_start) AS process FROM pg_stat_get_activity(pg_backend_pid())";
/** One look is enough if nobody else uses the pooler. Others may take and return a connection between two queries. */
const LOOKS = 3;

/**
 * Throws PooledError if a pooler in transaction or statement mode is between this process and the server: the statements of one
 * connection then run in several sessions, and LISTEN hears nothing. A transaction of a second connection keeps its session
 * meanwhile, so the pooler gives it the session of the first one, or the first one another session. Uses two connections.
 */
export async function requireSessions(sql: SQL, address: ShownPlace): Promise<void> {
  const [one, other] = await reserveTwo(sql);
  try {
    for (let look = 0; look < LOOKS; look += 1)
      if (await sharesSessions(one, other)) throw pooledError(address);
  } catch (error) {
    throw isPoolerRefusal(error) ? pooledError(address) : error;
  } finally {
    void one.release();
    void other.release();
  }
}

async function reserveTwo(sql: SQL): Promise<readonly [ReservedSQL, ReservedSQL]> {
  const one = await sql.reserve();
  try {
    return [one, await sql.reserve()];
  } catch (error) {
    void one.release();
    throw error;
  }
}

async function sharesSessions(one: ReservedSQL, other: ReservedSQL): Promise<boolean> {
  const first = await serverProcess(one);
  await other.unsafe("BEGIN");
  try {
    return (await serverProcess(other)) === first || (await serverProcess(one)) !== first;
  } finally {
    await other.unsafe("COMMIT").catch(() => undefined);
  }
}

async function serverProcess(connection: ReservedSQL): Promise<string> {
  const [row] = await connection.unsafe<{ readonly process: string }[]>(SERVER_PROCESS);
  return row?.process ?? "";
}

/** What PgBouncer says in statement mode. */
function isPoolerRefusal(error: unknown): boolean {
  return sqlState(error) === "08P01" && /pooling mode/.test(messageOf(error));
}

/** Also: a statement that the connection has prepared is gone, or one of another client is there. */
export function isPoolerSymptom(error: unknown): boolean {
  if (error instanceof SharedSession) return true;
  const state = sqlState(error);
  return state === "26000" || state === "42P05" || isPoolerRefusal(error);
}

export function pooledError({ url, shownUrl }: ShownPlace, cause?: unknown): PooledError {
  const problem =
    "is behind a pooler in transaction or statement mode, such as PgBouncer's pool_mode = transaction";
  return new PooledError(`the database ${shownUrl} ${problem}: ${useInstead(new URL(url))}`, {
    cause,
  });
}
