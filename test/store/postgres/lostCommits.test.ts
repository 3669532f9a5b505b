import { expect, test } from "bun:test";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { startTcpProxy } from "../../support/servers/tcpProxy.ts";
import { openReplica, openBooksBefore } from "../../support/store/replica.ts";
import { costOfEnded, ended } from "../../support/store/storeFolder.ts";
import { until } from "../../support/until.ts";

describePostgres("a charge", () => {
  const { database, books } = openBooksBefore();

  test.each([
    ["reply to the commit is lost", "dropReplyAfterCommit"],
    ["commit never reaches the server", "dropCommit"],
    ["connection is closed while it is idle", "reset"],
  ] as const)("whose %s is made exactly once, before its answer ends", async (_, fault) => {
    await using proxy = await startTcpProxy(Number(new URL(database.url).port));
    await using replica = await openReplica(proxy.through(database.url));
    const owner = await books.open("alice", 2n * costOfEnded);
    const { accountId } = owner;
    await replica.reserve({ accountId, reserved: String(2n * costOfEnded) });
    const broken = proxy[fault]();
    const write = (id: string) =>
      replica.writer.writeWithin({ kind: "recordRequest", record: ended(id, owner) });
    const charged = write("req_1");
    await broken;
    await charged;
    expect(await books.statuses()).toEqual({ req_1: "done" });
    expect(await books.account(accountId)).toEqual({
      balance: costOfEnded,
      reserved: costOfEnded,
      ledger_seq: 2n,
    });
    await write("req_2");
    expect(await books.account(accountId)).toMatchObject({ balance: 0n, ledger_seq: 3n });
  });

  test("whose commit nobody can ask for blocks the writer after ten seconds, and is made once", async () => {
    await using proxy = await startTcpProxy(Number(new URL(database.url).port));
    await using replica = await openReplica(proxy.through(database.url));
    const owner = await books.open("alice", 2n * costOfEnded);
    const { accountId } = owner;
    await replica.reserve({ accountId, reserved: String(2n * costOfEnded) });
    const broken = proxy.dropReplyAfterCommit();
    const charged = replica.writer.writeWithin({
      kind: "recordRequest",
      record: ended("req_1", owner),
    });
    await proxy.refuse();
    await broken;
    await until("the writer is blocked", () => replica.writer.blockedBy === "unreachable");
    proxy.pass();
    await charged;
    await until("the writer is free", () => replica.writer.blockedBy === undefined);
    expect(await books.account(accountId)).toMatchObject({ balance: costOfEnded, ledger_seq: 2n });
  });
});
