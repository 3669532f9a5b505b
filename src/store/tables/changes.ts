import { changes } from "../schema/schema.ts";
import type { Connection } from "../sqlite.ts";
import { prepareStatement } from "../statement.ts";

/** Tells whether keys, accounts or ledger were changed by another process. */
export interface ChangeCounter {
  /**
   * A number that grows with each change. It is read from the database once in each turn of the event loop. Whatever
   * arrives at the process after that read is served in a later turn, and so after the next read.
   */
  current(): number;
}

export function changeCounter(connection: Connection): ChangeCounter {
  const read = prepareStatement<{ seq: bigint }>(
    connection,
    connection.db.select({ seq: changes.seq }).from(changes),
    [],
  );
  let seq = 0;
  let isRead = false;
  const endTurn = (): void => {
    isRead = false;
  };
  return {
    current() {
      if (isRead) return seq;
      seq = Number(read.get()?.seq ?? 0);
      isRead = true;
      setImmediate(endTurn);
      return seq;
    },
  };
}
