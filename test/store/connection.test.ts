import { describe, expect, test } from "bun:test";
import { eq, sql } from "drizzle-orm";
import type { Connection } from "../../src/store/connection.ts";
import { accounts, keys } from "../../src/store/schema/schema.ts";
import { runAsync, type Steps } from "../../src/store/steps.ts";
import { describeEngines } from "../support/store/engines.ts";

const NOW = 1_790_000_000_123;
const LARGE = 9_007_199_254_740_993n;

describeEngines("a connection", (open) => {
  const run = async <Result>(work: (connection: Connection) => Steps<Result>): Promise<Result> => {
    await using engine = await open();
    return await runAsync(work(engine.connection));
  };

  const insert = (connection: Connection, name: string, overdraft = 0n) =>
    connection.db
      .insert(accounts)
      .values({ id: connection.dialect.newRowId, name, overdraft, createdAt: NOW });

  test("reads what Drizzle's queries have written, with exact integers", async () => {
    const rows = await run(function* (connection) {
      const { db } = connection;
      const id = yield* connection.first(
        insert(connection, "Zoë", LARGE).returning({ id: accounts.id }),
      );
      yield* connection.run(
        db
          .update(accounts)
          .set({ disabled: true })
          .where(eq(accounts.id, id?.id ?? 0)),
      );
      yield* connection.run(
        db.insert(keys).values({
          id: connection.dialect.newRowId,
          publicId: "key_1",
          accountId: id?.id ?? 0,
          hash: Buffer.from([0, 255, 1]),
          prefix: "sk",
          createdAt: NOW,
        }),
      );
      const byHash = connection.prepare(
        db
          .select({
            name: accounts.name,
            overdraft: accounts.overdraft,
            at: keys.createdAt,
            disabled: accounts.disabled,
          })
          .from(keys)
          .innerJoin(accounts, eq(keys.accountId, accounts.id))
          .where(eq(keys.hash, sql.placeholder("hash"))),
      );
      return yield* byHash.all({ hash: Buffer.from([0, 255, 1]) });
    });
    expect(rows).toEqual([{ name: "Zoë", overdraft: LARGE, at: NOW, disabled: true }]);
  });

  test("runs queries of text with values of each type", async () => {
    const row = await run((connection) =>
      connection.row(
        "SELECT $number + 1 AS number, $big AS big, $text AS text, $bytes AS bytes, coalesce($none, 'none') AS none, $yes AS yes, $text AS again",
        {
          number: NOW,
          big: LARGE,
          text: "it's $1",
          bytes: new Uint8Array([0, 255]),
          none: null,
          yes: true,
        },
      ),
    );
    expect(row).toEqual({
      number: BigInt(NOW) + 1n,
      big: LARGE,
      text: "it's $1",
      bytes: Buffer.from([0, 255]),
      none: "none",
      yes: 1n,
      again: "it's $1",
    });
  });

  test("visits many rows in a snapshot", async () => {
    const sum = await run((connection) =>
      connection.inSnapshot(function* (snapshot) {
        let total = 0n;
        yield* snapshot.forEach<{ n: bigint }>(
          "WITH RECURSIVE numbers(n) AS (SELECT CAST(1 AS bigint) UNION ALL SELECT n + 1 FROM numbers WHERE n < $most) SELECT n FROM numbers",
          { most: 12_000 },
          ({ n }) => {
            total += n;
          },
        );
        return total;
      }),
    );
    expect(sum).toBe(72_006_000n);
  });

  test("rolls back a change that throws, also with a part that is a change itself", async () => {
    const names = await run(function* (connection) {
      yield* connection.inTransaction(function* (outer) {
        yield* outer.run(insert(outer, "kept"));
        yield* outer.inTransaction(function* (inner) {
          yield* inner.run(insert(inner, "kept too"));
        });
      });
      let message = "";
      try {
        yield* connection.inTransaction(function* (change) {
          yield* change.run(insert(change, "gone"));
          throw new Error("no");
        });
      } catch (error) {
        message = error instanceof Error ? error.message : "";
      }
      const rows = yield* connection.all(
        connection.db.select({ name: accounts.name }).from(accounts).orderBy(accounts.name),
      );
      return [message, ...rows.map(({ name }) => name)];
    });
    expect(names).toEqual(["no", "kept", "kept too"]);
  });

  test("says which constraint a statement breaks, without its values", async () => {
    const failed = run(function* (connection) {
      yield* connection.run(insert(connection, "secret"));
      yield* connection.run(insert(connection, "secret"));
    });
    const error = (await failed.then(
      () => undefined,
      (reason: unknown) => reason,
    )) as Error;
    expect(error).toBeInstanceOf(Error);
    expect(error.message).toMatch(/unique|there already/i);
    expect(error.message).not.toContain("secret");
  });

  describe("with the words of its dialect", () => {
    test("finds parts of texts in any case of ASCII", async () => {
      const found = await run(function* (connection) {
        const { dialect } = connection;
        yield* connection.run(insert(connection, "Äpfel & Co"));
        const matching = function* (part: string) {
          const query = connection.db
            .select({ name: accounts.name })
            .from(accounts)
            .where(dialect.contains(sql`${accounts.name}`, sql`${part}`));
          return (yield* connection.all(query)).length;
        };
        return [yield* matching("FEL"), yield* matching("ä"), yield* matching("%")];
      });
      expect(found).toEqual([1, 0, 0]);
    });
  });
});
