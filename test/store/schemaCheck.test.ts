import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { FIRST_SCHEMA } from "../../src/store/schema/migrationFiles.ts";
import { applyMigrations } from "../../src/store/sqlite/schema/migrations.ts";
import {
  SCHEMA_SHA256,
  schemaProblems,
  schemaSha256,
} from "../../src/store/sqlite/schema/schemaCheck.ts";
import { openStoreBefore } from "../support/store/storeBefore.ts";

const storeFolder = openStoreBefore({ audited: false });
let sqlite: Database;
beforeEach(() => {
  sqlite = new Database(storeFolder.path);
});
afterEach(async () => {
  sqlite.close();
});

test("the schema is known by its digest; after a new migration this is the place to renew it", () => {
  expect(SCHEMA_SHA256).toBe(schemaSha256(sqlite));
});

test.each([
  [FIRST_SCHEMA.sqlite, "b4afd90a1190bebdb4eeb2e3c6d38a6308178adc8888009a4ae6d4bade2553ff"],
  [FIRST_SCHEMA.sqlite + 1, "2ab2a4aac659835146f30486df10bf48ff26966880363f07d66383ea0c16a025"],
  [FIRST_SCHEMA.sqlite + 2, "f70edfba641bbaa9361004f7e1878b7f0642a093b7a901e6675fe6e3d0ec27f1"],
  [FIRST_SCHEMA.sqlite + 3, "b7a2227e4ddaeecfe85f27be7af4e1e01ba6f259dd8d8b5998dac9de2223b245"],
  [FIRST_SCHEMA.sqlite + 4, "11f266d968f9476dd416ac023c6f5b0237463e3254789efcd6f8a5e4a52eb178"],
])("the migrations make the schema %i that files have", (version, digest) => {
  const earlier = new Database(":memory:");
  applyMigrations(earlier, 0, version);
  expect(schemaSha256(earlier)).toBe(digest);
  earlier.close();
});

test("a copy, in which all lies in another order, has the same digest", () => {
  sqlite.run("VACUUM INTO ?", [`${storeFolder.path}.copy`]);
  const copy = new Database(`${storeFolder.path}.copy`, { readonly: true });
  expect(schemaSha256(copy)).toBe(SCHEMA_SHA256);
  copy.close();
});

describe("a store's schema", () => {
  test.each<[string, string, string[]]>([
    ["is in order as it was made", "SELECT 1", []],
    ["may have a foreign table with an index", "CREATE TABLE notes (text TEXT UNIQUE)", []],
    [
      "lacks a trigger",
      "DROP TRIGGER ledger_keeps",
      ["trigger ledger_keeps is missing or not the program's own"],
    ],
    [
      "has a foreign trigger",
      "CREATE TRIGGER gift AFTER INSERT ON requests BEGIN DELETE FROM attempts; END",
      ["trigger gift is not the program's own: drop it"],
    ],
    ["may have a foreign plain index on its tables", "CREATE INDEX own ON requests (model)", []],
    [
      "has an index that can refuse a booking",
      "CREATE UNIQUE INDEX own ON requests (model)",
      ["index own is not the program's own: drop it"],
    ],
    [
      "has an index on an expression",
      "CREATE INDEX own ON ledger (abs(amount))",
      ["index own is not the program's own: drop it"],
    ],
  ])("%s", (_, statement, problems) => {
    sqlite.run(statement);
    expect(schemaProblems(sqlite)).toEqual(problems);
  });
});
