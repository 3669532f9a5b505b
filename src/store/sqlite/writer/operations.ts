import { eq, sql } from "drizzle-orm";
import { lazy } from "../../../lib/lazy.ts";
import { keys } from "../../schema/schema.ts";
import type { SqliteConnection } from "../sqlite.ts";
import { prepareFold } from "./fold.ts";
import { prepareRecordOwner } from "./recordOwner.ts";
import { prepareRedeem } from "./redeem.ts";
import { runSync } from "../../steps.ts";
import { noticeTable } from "../../tables/notices.ts";
import type { GroupEffect } from "../../writer/effects.ts";
import { FOLD_BATCH } from "../../writer/folding.ts";
import type { WireBatch, WireOperation, WriteResult } from "../../writer/writerMessages.ts";
import { prepareRequestGroups } from "./requestGroup.ts";

const DONE: WriteResult = {};

/** Runs a batch in the caller's transaction. */
export type RunGroup = (batch: WireBatch) => {
  results: readonly WriteResult[];
  effect: GroupEffect;
};

export function prepareGroups(connection: SqliteConnection): RunGroup {
  const newGroup = prepareRequestGroups(connection);
  const recordOwner = prepareRecordOwner(connection);
  const fold = prepareFold(connection);
  const redeem = prepareRedeem(connection);
  const touchKey = prepareTouchKey(connection);
  const probe = prepareProbe(connection);
  const notices = lazy(() => noticeTable(connection.queries));
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
          touchKey(operation);
          return DONE;
        case "reserve":
          return DONE;
        case "probe":
          probe();
          return DONE;
        case "fold":
          return { folded: fold(operation.before) };
        case "redeemVoucher":
          return { redeemed: redeem(operation.redemption) };
        case "notice":
          return { claimed: runSync(notices().change(operation.change)) };
      }
    };
    const results = operations.map(() => DONE);
    const runAll = (isNow: (kind: WireOperation["kind"]) => boolean): void =>
      operations.forEach((operation, index) => {
        if (isNow(operation.kind)) results[index] = run(operation);
      });
    // A group remembers balances, so credits come before it. A fold may remove a request of the group, so it comes after.
    runAll((kind) => kind === "redeemVoucher");
    runAll((kind) => kind !== "redeemVoucher" && kind !== "fold");
    const effect = group.finish(reserves, onlyRaise);
    runAll((kind) => kind === "fold");
    return { results, effect };
  };
}

/** The rows that an operation writes, as a measure for the next checkpoint. */
export function rowsOf({ kind }: WireOperation): number {
  return kind === "fold" ? FOLD_BATCH : 1;
}

type TouchKey = (touched: Extract<WireOperation, { kind: "touchKey" }>) => void;

function prepareTouchKey({ db }: SqliteConnection): TouchKey {
  const address = sql.placeholder("address");
  const touch = db
    .update(keys)
    .set({
      lastUsedAt: sql`${sql.placeholder("at")}`,
      firstAddress: sql`iif(${address} IS NULL, NULL, coalesce(${keys.firstAddress}, ${address}))`,
      lastAddress: sql`${address}`,
    })
    .where(eq(keys.id, sql.placeholder("keyId")))
    .prepare();
  return ({ keyId, at, address: seen }) => {
    touch.run({ keyId, at, address: seen });
  };
}

/** Changes a row and changes it back. SQLite writes the page then; it writes no page for an update without a change. */
function prepareProbe({ db }: SqliteConnection): () => void {
  const anyKey = db
    .select({ id: keys.id, lastUsedAt: keys.lastUsedAt })
    .from(keys)
    .limit(1)
    .prepare();
  const use = db
    .update(keys)
    .set({ lastUsedAt: sql`${sql.placeholder("at")}` })
    .where(eq(keys.id, sql.placeholder("id")))
    .prepare();
  return () => {
    const key = anyKey.get();
    if (!key) return;
    use.run({ id: key.id, at: (key.lastUsedAt ?? 0) + 1 });
    use.run({ id: key.id, at: key.lastUsedAt });
  };
}
