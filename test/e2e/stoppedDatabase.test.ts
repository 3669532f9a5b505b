import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { startLoadProvider } from "../support/provider/loadProvider.ts";
import { chat } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { until } from "../support/until.ts";
import { describeSqlite } from "../support/testedEngines.ts";

const provider = startLoadProvider({ wordDelayMs: 0 });
let gateway: GatewayProcess;
let key: string;
/** Charges of all runs of the gateway. */
let answered = 0;

beforeAll(async () => {
  gateway = await startGatewayProcess(oneModel(provider.url));
  key = await gateway.key("alice", "1000");
}, startTimeoutMs);
afterAll(async () => {
  await gateway.close();
  provider.stop();
});

const stopsTimeoutMs = 120_000;
const clients = 4;

/** Clients send requests in sequence until the gateway no longer answers. */
async function askUntilStopped(): Promise<void> {
  const client = async () => {
    for (;;) {
      const reply = await chat(gateway, { key }).catch(() => undefined);
      if (reply?.status !== 200) return;
      answered += 1;
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
}

/** Bytes of the WAL file, or 0 when there is none. */
const walBytes = () =>
  statSync(`${gateway.cli.database}-wal`, { throwIfNoEntry: false })?.size ?? 0;

/** The charges in the database file alone, as an operator would copy it. */
function chargesOfFileAlone(): number {
  const alone = join(gateway.cli.folder, `alone-${++copies}.db`);
  copyFileSync(gateway.cli.database, alone);
  const sqlite = new Database(alone, { readwrite: true });
  const row = sqlite
    .query<{ charges: number }, []>("SELECT count(*) AS charges FROM history WHERE kind = 'charge'")
    .get();
  sqlite.close();
  return row?.charges ?? -1;
}
let copies = 0;

describeSqlite("the file of the database alone has every charge, and its log nothing,", () => {
  test.each<[string, readonly NodeJS.Signals[]]>([
    ["SIGTERM", ["SIGTERM"]],
    ["a second SIGINT", ["SIGINT", "SIGINT"]],
  ])(
    "after each stop by %s under traffic",
    async (_, signals) => {
      for (let stop = 0; stop < 6; stop += 1) {
        const enough = answered + 3 + 10 * stop;
        const asking = askUntilStopped();
        await until("some were answered", () => answered >= enough);
        for (const signal of signals) gateway.signal(signal);
        const status = await gateway.ended;
        await asking;
        expect({ status, log: walBytes() }).toEqual({ status: 0, log: 0 });
        // A charged answer may have been cut on its way to the client.
        const charged = chargesOfFileAlone();
        expect(charged).toBeGreaterThanOrEqual(answered);
        answered = charged;
        expect(gateway.log.at(-1)?.msg).toBe("stopped");
        await gateway.start();
      }
      await gateway.expectAuditPasses();
    },
    stopsTimeoutMs,
  );

  test(
    "unless another program reads: the stop does not wait for it, and logs that",
    async () => {
      const reader = new Database(gateway.cli.database, { readonly: true });
      reader.run("BEGIN");
      reader.query("SELECT count(*) FROM ledger").get();
      await chat(gateway, { key });
      answered += 1;
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      expect(walBytes()).toBeGreaterThan(0);
      expect(gateway.log.at(-1)).toMatchObject({
        level: "warn",
        msg: expect.stringContaining("copy or move it together"),
      });
      reader.run("COMMIT");
      reader.close();
      await gateway.start();
      gateway.signal("SIGTERM");
      expect(await gateway.ended).toBe(0);
      expect({ log: walBytes(), charges: chargesOfFileAlone() }).toEqual({
        log: 0,
        charges: answered,
      });
    },
    startTimeoutMs,
  );

  test("after a command that writes, when a killed process left a WAL", async () => {
    await gateway.start();
    await chat(gateway, { key });
    answered += 1;
    await gateway.kill();
    expect(walBytes()).toBeGreaterThan(0);
    await gateway.cli.json("balance", "credit", "alice", "1");
    expect({ log: walBytes(), charges: chargesOfFileAlone() }).toEqual({
      log: 0,
      charges: answered,
    });
  });
});
