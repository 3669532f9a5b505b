import { expect, test } from "bun:test";
import { join, resolve } from "node:path";
import { auditServer } from "../../../src/store/postgres/audit/audit.ts";
import { objectLines, schemaObjects } from "../../../src/store/postgres/audit/schemaObjects.ts";
import { openServerStore } from "../../../src/store/open.ts";
import { openPostgres } from "../../support/store/engines.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { freshDatabase } from "../../support/servers/postgres.ts";
import { sample } from "../../support/sample.ts";

const file = Bun.file(join(resolve(import.meta.dir, "../../.."), "drizzle/postgres/objects.txt"));

describePostgres("the objects of the schema", () => {
  test("are those of drizzle/postgres/objects.txt (RENEW_OBJECTS=1 writes it again)", async () => {
    await using engine = await openPostgres();
    const text = `${objectLines(await schemaObjects(engine.connection)).join("\n")}\n`;
    if (process.env["RENEW_OBJECTS"] === "1") await Bun.write(file, text);
    expect(text).toBe(await file.text());
  });

  test.skipIf(Bun.which("pg_dump") === null)("are the same after a dump was restored", async () => {
    await using engine = await openPostgres();
    await using restored = await freshDatabase();
    const dump = Bun.spawn(["pg_dump", "--format=custom", engine.url]);
    const restore = Bun.spawn(["pg_restore", "--exit-on-error", `--dbname=${restored.url}`], {
      stdin: dump.stdout,
    });
    expect([await dump.exited, await restore.exited]).toEqual([0, 0]);
    const store = await openServerStore({
      url: restored.url,
      shownUrl: "postgres://server/restored",
    });
    const { problems } = await store.audit();
    await store.close();
    expect(problems).toEqual([]);
  });

  const changes: readonly (readonly [sql: string, problems: readonly string[]])[] = [
    ["SELECT 1", []],
    ["CREATE TABLE notes (text text UNIQUE)", []],
    ["CREATE INDEX ledger_notes ON ledger (note)", []],
    ["DROP TABLE attempts", ["table attempts is missing"]],
    ["ALTER TABLE ledger SET UNLOGGED", ["table ledger was changed"]],
    ["ALTER TABLE ledger ENABLE ROW LEVEL SECURITY", ["table ledger was changed"]],
    ["ALTER TABLE keys DROP COLUMN label", ["column keys.label is missing"]],
    ["ALTER TABLE keys ALTER COLUMN spent DROP NOT NULL", ["column keys.spent was changed"]],
    ["ALTER TABLE keys ALTER COLUMN spent SET DEFAULT 5", ["column keys.spent was changed"]],
    ["ALTER TABLE keys ALTER COLUMN id DROP IDENTITY", ["column keys.id was changed"]],
    [
      "ALTER TABLE accounts DROP CONSTRAINT accounts_promise",
      ["constraint accounts.accounts_promise is missing"],
    ],
    [
      "ALTER TABLE accounts DROP CONSTRAINT accounts_promise, ADD CONSTRAINT accounts_promise CHECK (balance + overdraft >= -1)",
      ["constraint accounts.accounts_promise was changed"],
    ],
    [
      "ALTER TABLE accounts DROP CONSTRAINT accounts_overdraft, ADD CONSTRAINT accounts_overdraft CHECK (overdraft >= 0) NOT VALID",
      ["constraint accounts.accounts_overdraft was changed"],
    ],
    [
      "ALTER TABLE keys ADD CONSTRAINT short CHECK (length(label) < 5)",
      ["constraint keys.short is not the program's own: drop it"],
    ],
    ["DROP INDEX requests_account_seq", ["index requests_account_seq is missing"]],
    [
      "DROP INDEX requests_account_seq; CREATE INDEX requests_account_seq ON requests (account_id, ledger_seq) WHERE ledger_seq IS NOT NULL",
      ["index requests_account_seq was changed"],
    ],
    [
      "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'requests_account_seq'::regclass",
      ["index requests_account_seq is switched off"],
    ],
    [
      "CREATE UNIQUE INDEX one_note ON ledger (note)",
      ["index one_note is not the program's own: drop it"],
    ],
    ["DROP TRIGGER ledger_keeps ON ledger", ["trigger ledger.ledger_keeps is missing"]],
    [
      "DROP TRIGGER ledger_keeps ON ledger; CREATE TRIGGER ledger_keeps BEFORE UPDATE ON ledger FOR EACH STATEMENT WHEN (false) EXECUTE FUNCTION refuse('no')",
      ["trigger ledger.ledger_keeps was changed"],
    ],
    [
      "ALTER TABLE ledger DISABLE TRIGGER ledger_keeps",
      ["trigger ledger.ledger_keeps is switched off"],
    ],
    [
      "ALTER TABLE ledger ENABLE REPLICA TRIGGER ledger_keeps",
      ["trigger ledger.ledger_keeps is switched off"],
    ],
    [
      "ALTER TABLE attempts DISABLE TRIGGER ALL",
      ["constraint attempts.attempts_request_id_requests_id_fk is switched off"],
    ],
    [
      "CREATE TRIGGER foreign_one BEFORE INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION refuse('no')",
      ["trigger ledger.foreign_one is not the program's own: drop it"],
    ],
    [
      "CREATE RULE nothing AS ON INSERT TO ledger DO INSTEAD NOTHING",
      ["rule ledger.nothing is not the program's own: drop it"],
    ],
    [
      "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW;END'",
      ["function refuse was changed"],
    ],
    [
      "CREATE OR REPLACE VIEW history AS SELECT account_id, seq, kind, amount, balance_after, ref, actor, note, at, refund_of FROM ledger",
      ["view history was changed"],
    ],
  ];
  test.each(sample(changes, 10, ([sql]) => sql))(
    "are told if changed: %s",
    async (change, problems) => {
      await using engine = await openPostgres();
      const { connection } = engine;
      for (const statement of change.split("; ")) await connection.rows(statement);
      expect((await auditServer(connection)).problems).toEqual(
        problems.map((problem) => `schema: ${problem}`),
      );
    },
  );
});
