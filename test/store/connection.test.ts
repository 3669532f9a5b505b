import { describe, expect, test } from "bun:test";
import { eq, sql } from "drizzle-orm";
import type { Connection } from "../../src/store/connection.ts";
import { accounts, keys } from "../../src/store/schema/schema.ts";
import { describeEngines } from "../support/store/engines.ts";
import { actor, openStoreFolder } from "../support/store/storeFolder.ts";

const NOW = 1_790_000_000_123;
const LARGE = 9_007_199_254_740_993n;

describeEngines("a connection", (open) => {
  const run = async <Result>(
    work: (connection: Connection) => Promise<Result>,
  ): Promise<Result> => {
    await using engine = await open();
    return await work(engine.connection);
  };

  const insert = (connection: Connection, name: string, overdraft = 0n) =>
    connection.db
      .insert(accounts)
      .values({ id: connection.dialect.newRowId, name, overdraft, createdAt: NOW });

  test("reads what Drizzle's queries have written, with exact integers", async () => {
    const rows = await run(async (connection) => {
      const { db } = connection;
      const id = await connection.first(
        insert(connection, "Zoë", LARGE).returning({ id: accounts.id }),
      );
      await connection.run(
        db
          .update(accounts)
          .set({ disabled: true })
          .where(eq(accounts.id, id?.id ?? 0)),
      );
      await connection.run(
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
      return await byHash.all({ hash: Buffer.from([0, 255, 1]) });
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
      connection.inSnapshot(async (snapshot) => {
        let total = 0n;
        await snapshot.forEach<{ n: bigint }>(
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
    const names = await run(async (connection) => {
      await connection.inTransaction(async (outer) => {
        await outer.run(insert(outer, "kept"));
        await outer.inTransaction(async (inner) => {
          await inner.run(insert(inner, "kept too"));
        });
      });
      let message = "";
      try {
        await connection.inTransaction(async (change) => {
          await change.run(insert(change, "gone"));
          throw new Error("no");
        });
      } catch (error) {
        message = error instanceof Error ? error.message : "";
      }
      const rows = await connection.all(
        connection.db.select({ name: accounts.name }).from(accounts).orderBy(accounts.name),
      );
      return [message, ...rows.map(({ name }) => name)];
    });
    expect(names).toEqual(["no", "kept", "kept too"]);
  });

  test("runs changes one after the other, and a read after the one that goes on", async () => {
    const seen = await run(async (connection) => {
      const steps: string[] = [];
      const change = (name: string) =>
        connection.inTransaction(async (transaction) => {
          steps.push(`${name} begins`);
          await transaction.run(insert(transaction, name));
          await transaction.row("SELECT 1 AS one");
          steps.push(`${name} ends`);
          if (name === "second") throw new Error("no");
        });
      const changes = [change("first"), change("second"), change("third")];
      const ended = await Promise.allSettled(changes);
      const rows = await connection.rows<{ name: string }>("SELECT name FROM accounts ORDER BY id");
      return [
        steps.map((step, at) => step.split(" ")[0] === steps[at - (at % 2)]?.split(" ")[0]),
        ended.map(({ status }) => status),
        rows.map(({ name }) => name).toSorted(),
      ];
    });
    expect(seen).toEqual([
      Array(6).fill(true),
      ["fulfilled", "rejected", "fulfilled"],
      ["first", "third"],
    ]);
  });

  test("says which constraint a statement breaks, without its values", async () => {
    const failed = run(async (connection) => {
      await connection.run(insert(connection, "secret"));
      await connection.run(insert(connection, "secret"));
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
      const found = await run(async (connection) => {
        const { dialect } = connection;
        await connection.run(insert(connection, "Äpfel & Co"));
        const matching = async (part: string) => {
          const query = connection.db
            .select({ name: accounts.name })
            .from(accounts)
            .where(dialect.contains(sql`${accounts.name}`, sql`${part}`));
          return (await connection.all(query)).length;
        };
        return [await matching("FEL"), await matching("ä"), await matching("%")];
      });
      expect(found).toEqual([1, 0, 0]);
    });
  });
});

test("two SQLite connections of one thread change a file one after the other", async () => {
  const one = await openStoreFolder();
  const second = await openStoreFolder(one.path);
  try {
    const names = Array.from({ length: 20 }, (_, number) => `account${number}`);
    await Promise.all(
      names.map((name, at) => (at % 2 ? one : second).store.admin.createAccount(actor, name, 0n)),
    );
    expect((await one.store.accounts.list()).length).toBe(names.length);
  } finally {
    await second.close();
    await one.close();
  }
});
