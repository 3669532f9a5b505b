import { eq, sql } from "drizzle-orm";
import { keys } from "../schema/schema.ts";
import { prepareRecordOwner, type OwnedObject } from "../tables/objectOwners.ts";
import type { Connection } from "../sqlite.ts";
import { FOLD_BATCH, prepareFold } from "./fold.ts";
import { prepareRequestGroups, type GroupEffect } from "./requestGroup.ts";
import type { RequestRecord } from "./requestRecord.ts";
import type { WireBatch, WireOperation } from "./writerMessages.ts";

/** One write. The writer performs them in the order of the calls. */
export type WriteOperation =
  /** Writes the row of a request: of one that runs, or of one that has ended, with its charge. */
  | { kind: "recordRequest"; record: RequestRecord }
  | { kind: "recordOwners"; objects: readonly OwnedObject[]; at: number }
  | { kind: "touchKey"; keyId: number; at: number }
  /** Commits the reserves of accounts. */
  | { kind: "reserve" }
  /** Changes nothing, but needs disk space like a change. */
  | { kind: "probe" }
  /** Folds one batch of ended requests that were admitted before this time. */
  | { kind: "fold"; before: number };

/** The result of an operation. */
export interface WriteResult {
  /** The number of requests that a fold removed. */
  folded?: number;
}

const DONE: WriteResult = {};

/** Runs a batch in the caller's transaction. */
export type RunGroup = (batch: WireBatch) => {
  results: readonly WriteResult[];
  effect: GroupEffect;
};

export function prepareGroups(connection: Connection): RunGroup {
  const newGroup = prepareRequestGroups(connection);
  const recordOwner = prepareRecordOwner(connection);
  const fold = prepareFold(connection);
  const touchKey = prepareTouchKey(connection);
  const probe = prepareProbe(connection, touchKey);
  return ({ operations, reserves, onlyRaise = false }) => {
    const group = newGroup();
    const run = (operation: WireOperation): WriteResult => {
      switch (operation.kind) {
        case "recordRequest":
          group.record(operation.record);
          return DONE;
        case "recordOwners":
          for (const object of operation.objects)
            recordOwner({ ...object, hash: Uint8Array.fromHex(object.hash) }, operation.at);
          return DONE;
        case "touchKey":
          touchKey(operation.keyId, operation.at);
          return DONE;
        case "reserve":
          return DONE;
        case "probe":
          probe();
          return DONE;
        case "fold":
          return { folded: fold(operation.before) };
      }
    };
    const results = operations.map(run);
    return { results, effect: group.finish(reserves, onlyRaise) };
  };
}

/** The rows that an operation writes, as a measure for the next checkpoint. */
export function rowsOf({ kind }: WireOperation): number {
  return kind === "fold" ? FOLD_BATCH : 1;
}

type TouchKey = (keyId: number, at: number | null) => void;

function prepareTouchKey({ db }: Connection): TouchKey {
  const touch = db
    .update(keys)
    .set({ lastUsedAt: sql`${sql.placeholder("at")}` })
    .where(eq(keys.id, sql.placeholder("keyId")))
    .prepare();
  return (keyId, at) => {
    touch.run({ at, keyId });
  };
}

/** Changes a row and changes it back. SQLite writes the page then; it writes no page for an update without a change. */
function prepareProbe({ db }: Connection, touchKey: TouchKey): () => void {
  const anyKey = db
    .select({ id: keys.id, lastUsedAt: keys.lastUsedAt })
    .from(keys)
    .limit(1)
    .prepare();
  return () => {
    const key = anyKey.get();
    if (!key) return;
    touchKey(key.id, (key.lastUsedAt ?? 0) + 1);
    touchKey(key.id, key.lastUsedAt);
  };
}
