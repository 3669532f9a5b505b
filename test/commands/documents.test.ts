import type { TObject } from "@sinclair/typebox";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { AccountDocument } from "../../src/contract/operator/account.ts";
import {
  CreatedKeyDocument,
  KeyDocument,
  RevokedKeyDocument,
  RotatedKeyDocument,
} from "../../src/contract/operator/key.ts";
import {
  ChangedBalanceDocument,
  LedgerDocument,
  RefundDocument,
} from "../../src/contract/operator/ledger.ts";
import { RequestDetailDocument, RequestDocument } from "../../src/contract/operator/request.ts";
import { SchemaUpgradeDocument } from "../../src/contract/operator/schemaUpgrade.ts";
import { UsageDocument } from "../../src/contract/operator/usage.ts";
import {
  CreatedVoucherDocument,
  RevokedVoucherDocument,
  VoucherDocument,
} from "../../src/contract/operator/voucher.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { ended, fund, openStoreFolder } from "../support/store/storeFolder.ts";

const ajv = new Ajv2020({ allErrors: true });
ajv.addFormat("date-time", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

let cli: CliFolder;
let keyId: string;
let voucherId: string;
beforeAll(async () => {
  cli = await openCliFolder();
  await cli.json("accounts", "create", "alice", "--overdraft", "5");
  await cli.json("balance", "credit", "alice", "100", "--ref", "pay-1", "--note", "first");
  const settings = ["--models", "small", "--budget", "50", "--expires", "30d", "--rpm", "60"];
  const key = await cli.json("keys", "create", "--account", "alice", ...settings);
  keyId = (key as { id: string }).id;
  const [voucher] = (await cli.json("vouchers", "create", "--amount", "5")) as [{ id: string }];
  voucherId = voucher.id;
  const storeFolder = await openStoreFolder(cli.database);
  await storeFolder.record(ended("req_1", await fund(storeFolder.store, "alice", 0n)));
  await storeFolder.close();
}, 60_000);
afterAll(() => cli.remove());

/** The commands run in this order. KEY is the id of a key, VOUCHER that of a voucher. */
const commands: readonly (readonly [command: string, schema: TObject])[] = [
  ["migrate-schema", SchemaUpgradeDocument],
  ["accounts create bob", AccountDocument],
  ["accounts list", AccountDocument],
  ["accounts show alice", AccountDocument],
  ["accounts set alice --overdraft 7", AccountDocument],
  ["accounts disable bob", AccountDocument],
  ["balance credit alice 1 --note gift", ChangedBalanceDocument],
  ["balance debit alice 0.000000001", ChangedBalanceDocument],
  ["balance refund req_1 --ref sorry", RefundDocument],
  ["balance history alice", LedgerDocument],
  ["requests", RequestDocument],
  ["requests show req_1", RequestDetailDocument],
  ["usage --by day", UsageDocument],
  ["usage --by model", UsageDocument],
  ["usage --by provider", UsageDocument],
  ["usage --by account", UsageDocument],
  ["usage --by key", UsageDocument],
  ["vouchers create --amount 5 --count 2 --expires 90d --note gift", CreatedVoucherDocument],
  ["vouchers list", VoucherDocument],
  ["vouchers revoke VOUCHER", RevokedVoucherDocument],
  ["keys create --account carol", CreatedKeyDocument],
  ["keys list", KeyDocument],
  ["keys show KEY", KeyDocument],
  ["keys set KEY --models none", KeyDocument],
  ["keys rotate KEY", RotatedKeyDocument],
  ["keys revoke KEY", RevokedKeyDocument],
  ["keys revoke KEY", RevokedKeyDocument],
];

test.each(commands)("tollgate %s prints the document of its schema", async (command, schema) => {
  const words = command.replace("KEY", keyId).replace("VOUCHER", voucherId).split(" ");
  const found = await cli.json(...words);
  const documents = Array.isArray(found) ? found : [found];
  expect(documents).not.toBeEmpty();
  const validate = ajv.compile({ ...schema, additionalProperties: false });
  for (const document of documents) {
    validate(document);
    expect(validate.errors).toBeNull();
  }
});
