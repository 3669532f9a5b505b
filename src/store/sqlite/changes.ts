import type { ChangeCounter } from "../connection.ts";
import { changes } from "../schema/schema.ts";
import type { SqliteConnection } from "./sqlite.ts";
import { prepareStatement } from "./statement.ts";

export function changeCounter(connection: SqliteConnection): ChangeCounter {
  const statement = prepareStatement<{ seq: bigint }>(
    connection,
    connection.db.select({ seq: changes.seq }).from(changes),
  );
  let seq = 0;
  let isRead = false;
  const endTurn = (): void => {
    isRead = false;
  };
  // A turn can be long. A request that arrives during the turn needs a new read.
  const read = (): number => {
    seq = Number(statement.get({})?.seq ?? 0);
    if (!isRead) setImmediate(endTurn);
    isRead = true;
    return seq;
  };
  return { read, current: () => (isRead ? seq : read()) };
}

/**
 * Returns a function whose text differs after each commit to the database, by this process or by another one. One call
 * takes some microseconds, and reads no table.
 */
export function changeSignal({ sqlite }: SqliteConnection): () => string {
  // `data_version` counts the commits of other connections only: https://www.sqlite.org/pragma.html#pragma_data_version
  const statement = sqlite.prepare<{ others: bigint; own: bigint }, []>(
    "SELECT data_version AS others, total_changes() AS own FROM pragma_data_version",
  );
  return () => {
    const row = statement.get();
    return `${row?.others}.${row?.own}`;
  };
}
