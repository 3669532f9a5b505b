import type { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { migrate } from "../../src/store/schema/migrations.ts";
import { connect } from "../../src/store/sqlite.ts";
import { openStore } from "../../src/store/store.ts";
import { makeFirstVersion } from "../support/store/firstVersion.ts";

const at = Date.UTC(2026, 0, 1);

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-migration-"));
  path = join(folder, "tollgate.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function run(sqlite: Database, id: string, status: string, day: number, charge = 0): void {
  const tokens = charge / 25;
  sqlite.run(
    `INSERT INTO requests (public_id, at, account_id, key_id, endpoint, model, stream, status,
      price_input, price_cached_input, price_cache_write, price_output, hold)
    VALUES (?, ?, 1, 1, 'chat', 'small', 0, 'running', 25, 25, 25, 25, 1000)`,
    [id, at + day * 86_400_000],
  );
  if (status === "running") return;
  sqlite.run(
    "UPDATE requests SET status = ?, provider = iif(? = 'failed', NULL, 'local'), charge = ?, prompt_tokens = ? WHERE public_id = ?",
    [status, status, charge, tokens, id],
  );
  if (charge === 0) return;
  sqlite.run(
    `INSERT INTO ledger (account_id, seq, kind, amount, balance_after, ref, at)
    SELECT id, ledger_seq + 1, 'charge', -?1, balance - ?1, 'req:' || ?2, 0 FROM accounts`,
    [charge, id],
  );
  sqlite.run("UPDATE keys SET spent = spent + ?", [charge]);
}

test("a store of the first version is migrated with its totals, and the audit finds no problem", () => {
  makeFirstVersion(path, (sqlite) => {
    sqlite.run("INSERT INTO accounts (name, created_at) VALUES ('alice', 0)");
    sqlite.run(
      "INSERT INTO keys (public_id, account_id, hash, prefix, created_at) VALUES ('key_1', 1, x'01', 'sk', 0)",
    );
    sqlite.run(
      "INSERT INTO ledger (account_id, seq, kind, amount, balance_after, at) VALUES (1, 1, 'credit', 10000, 10000, 0)",
    );
    run(sqlite, "req_1", "done", 0, 500);
    run(sqlite, "req_2", "cancelled", 0, 250);
    run(sqlite, "req_3", "failed", 1);
    run(sqlite, "req_4", "running", 1);
  });
  const store = openStore({ path, durability: "process", serving: true });
  const actor = { name: "tester", at };
  const tokens = {
    cachedTokens: 0,
    cacheWriteTokens: 0,
    completionTokens: 0,
    operatorCost: 0n,
    refunded: 0n,
  };
  const usage = [
    { group: "2026-01-01", requests: 2, failed: 0, promptTokens: 30, cost: 750n, ...tokens },
    { group: "2026-01-02", requests: 2, failed: 1, promptTokens: 0, cost: 0n, ...tokens },
  ];
  expect(store.usage("day", {})).toEqual(usage);
  expect(store.interruptRunning()).toEqual({ count: 1, held: 1000n });
  expect(store.usage("day", {})).toMatchObject([{ failed: 0 }, { requests: 2, failed: 2 }]);
  const refund = { request: "req_1", amount: null, ref: null, note: null };
  expect(store.admin.refund(actor, refund)).toMatchObject({ amount: 500n, applied: true });
  expect(store.keys.list("alice")).toMatchObject([{ spent: 250n }]);
  expect(store.audit()).toEqual({ accounts: 1, requests: 4, problems: [], notes: [] });
  store.close();
});

test("an empty store of the first version is migrated once", () => {
  makeFirstVersion(path, () => undefined);
  for (const _ of [1, 2]) {
    const store = openStore({ path, durability: "process", serving: true });
    expect(store.usage("day", {})).toEqual([]);
    expect(store.audit().problems).toEqual([]);
    store.close();
  }
});

test("a process that meets a gateway during a migration waits, and changes nothing", () => {
  const gateway = connect(path, "process");
  const command = connect(path, "process");
  const startsMeanwhile = (): boolean => {
    expect(migrate(gateway, () => true)).toBe(true);
    return false;
  };
  expect(migrate(command, startsMeanwhile)).toBe(false);
  expect(command.sqlite.query("SELECT name FROM accounts").all()).toEqual([]);
  for (const { sqlite } of [command, gateway]) sqlite.close();
});
