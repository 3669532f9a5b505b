import { eq, sql } from "drizzle-orm";
import type { Endpoint } from "../contract/requestForm.ts";
import { bound, newRowId } from "./columns.ts";
import { requestFolder } from "./fold.ts";
import { objectOwner, type OwnedObject } from "./owners.ts";
import { holdChecker } from "./holdCheck.ts";
import { requests } from "./requestSchema.ts";
import { keys } from "./schema.ts";
import { requestEnder, type RequestEnd, type Settled } from "./settle.ts";
import type { Connection } from "./sqlite.ts";

/** A request as it is admitted; prices are nano-roubles per token, `hold` nano-roubles. */
export interface OpenedRequest {
  publicId: string;
  at: number;
  accountId: number;
  keyId: number;
  endpoint: Endpoint;
  model: string;
  stream: boolean;
  priceInput: bigint;
  priceCachedInput: bigint;
  priceCacheWrite: bigint;
  priceOutput: bigint;
  hold: bigint;
  /** All that the account's open requests were promised at its admission, its own hold included. */
  promised: bigint;
}

/** What the writer does, in the order it was asked. */
export type WriteOperation =
  | { kind: "open"; request: OpenedRequest }
  | { kind: "end"; end: RequestEnd }
  | { kind: "own"; objects: readonly OwnedObject[]; at: number }
  | { kind: "touch"; keyId: number; at: number }
  /** Changes nothing, but needs room as every change does. */
  | { kind: "probe" }
  /** Folds some of the ended requests that were admitted before this time. */
  | { kind: "fold"; before: number };

/** What was charged at the end of a request; both amounts are 0 for the other operations. */
export interface WriteResult extends Settled {
  /** How many requests a fold removed. */
  folded?: number;
}

const NOTHING: WriteResult = { charge: 0n, writeOff: 0n };

/** Runs one operation. Its caller holds the transaction. */
export type RunOperation = (operation: WriteOperation) => WriteResult;

export function operationRunner(connection: Connection): RunOperation {
  const open = requestOpener(connection);
  const end = requestEnder(connection);
  const own = objectOwner(connection);
  const fold = requestFolder(connection);
  const touch = keyToucher(connection);
  const probe = roomProber(connection, touch);
  return (operation) => {
    switch (operation.kind) {
      case "open":
        open(operation.request);
        return NOTHING;
      case "end":
        return end(operation.end);
      case "own":
        for (const object of operation.objects) own(object, operation.at);
        return NOTHING;
      case "touch":
        touch(operation.keyId, operation.at);
        return NOTHING;
      case "probe":
        probe();
        return NOTHING;
      case "fold":
        return { ...NOTHING, folded: fold(operation.before) };
    }
  };
}

type TouchKey = (keyId: number, at: number | null) => void;

function keyToucher({ db }: Connection): TouchKey {
  const touch = db
    .update(keys)
    .set({ lastUsedAt: sql`${sql.placeholder("at")}` })
    .where(eq(keys.id, sql.placeholder("keyId")))
    .prepare();
  return (keyId, at) => {
    touch.run({ at, keyId });
  };
}

/** SQLite writes each page that was changed, also where it was changed back; an update that changes nothing is not written. */
function roomProber({ db }: Connection, touch: TouchKey): () => void {
  const anyKey = db
    .select({ id: keys.id, lastUsedAt: keys.lastUsedAt })
    .from(keys)
    .limit(1)
    .prepare();
  return () => {
    const key = anyKey.get();
    if (!key) return;
    touch(key.id, (key.lastUsedAt ?? 0) + 1);
    touch(key.id, key.lastUsedAt);
  };
}

function requestOpener(connection: Connection): (request: OpenedRequest) => void {
  const requireFunds = holdChecker(connection);
  const insert = connection.db
    .insert(requests)
    .values({
      id: newRowId,
      ...bound("publicId", "at", "accountId", "keyId", "endpoint", "model", "stream"),
      status: "running",
      ...bound("priceInput", "priceCachedInput", "priceCacheWrite", "priceOutput", "hold"),
    })
    .prepare();
  return (request) => {
    requireFunds(request);
    insert.run({ ...request });
  };
}
