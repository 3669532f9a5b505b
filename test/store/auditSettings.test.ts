import { expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { backUp, inspectStore } from "../../src/store/open.ts";
import { describeAudited } from "../support/store/auditedLedger.ts";
import { tamper } from "../support/store/sampleLedger.ts";
import { openSampleLedgerBefore } from "../support/store/storeBefore.ts";

const storeFolder = openSampleLedgerBefore();

const key = "UPDATE keys SET";
const alice = "WHERE public_id = 'key_alice'";
const models = "key key_alice: its list of models is damaged";
const limit = "key key_alice: has a limit or a budget out of range";
const time = "key key_alice: has a time out of range";

/** As one bit that turned over can leave it. */
const damages: readonly (readonly [change: string, problem: string])[] = [
  [`${key} models = '[bm"]' ${alice}`, models],
  [`${key} models = '{"small":1}' ${alice}`, models],
  [`${key} models = '["small",1]' ${alice}`, models],
  [`${key} models = '[]' ${alice}`, models],
  [`${key} budget = -1 ${alice}`, limit],
  [`${key} requests_per_minute = -60 ${alice}`, limit],
  [`${key} tokens_per_minute = 9223372036854775807 ${alice}`, limit],
  [`${key} concurrent_requests = -1 ${alice}`, limit],
  [`${key} expires_at = 9223372036854775807 ${alice}`, time],
  [`${key} created_at = -1 ${alice}`, time],
  [`${key} revoked_at = -1 ${alice}`, time],
  [`${key} last_used_at = -9223372036854775808 ${alice}`, time],
  [
    "UPDATE accounts SET created_at = -1 WHERE name = 'bob'",
    "account bob: has a time out of range",
  ],
  [
    "UPDATE accounts SET disabled = 7 WHERE name = 'bob'",
    "account bob: is neither enabled nor disabled",
  ],
];

test.each(damages)(
  "the inspection names a damaged setting, and a backup is still made: %s",
  async (change, problem) => {
    expect((await inspectStore(storeFolder.path))?.settingsProblems).toEqual([]);
    tamper(storeFolder, change);
    expect((await inspectStore(storeFolder.path))?.settingsProblems).toEqual([problem]);
    const file = join(storeFolder.folder, "night.db");
    const never = new Promise<void>(() => undefined);
    await backUp({ database: storeFolder.path, file, stopped: never });
    expect(existsSync(file)).toBe(true);
  },
);

describeAudited("the audit", (ledger) => {
  test.each(damages)("names a damaged setting: %s", async (change, problem) => {
    await ledger.tamper(change);
    expect((await ledger.audit()).problems).toEqual([problem]);
  });

  test("does not report valid settings", async () => {
    await ledger.tamper(
      `${key} models = '["small","gi*"]', budget = 0, requests_per_minute = 0, tokens_per_minute = 5,
      concurrent_requests = 1, expires_at = 4102444800000 ${alice}`,
      "UPDATE accounts SET disabled = 1",
    );
    expect((await ledger.audit()).problems).toEqual([]);
  });
});

test("a key with a damaged list of models may use no model, and other keys are listed", async () => {
  tamper(storeFolder, `${key} models = '[bm"]' ${alice}`);
  const found = await storeFolder.store.keys.list(undefined);
  expect(found.map(({ publicId, models: names }) => [publicId, names])).toEqual([
    ["key_alice", []],
    ["key_bob", null],
    ["key_next", null],
  ]);
});

test("an account that is neither enabled nor disabled is disabled", async () => {
  tamper(storeFolder, "UPDATE accounts SET disabled = 7 WHERE name = 'bob'");
  expect((await storeFolder.store.accounts.find("bob"))?.disabled).toBe(true);
});
