import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { Database } from "bun:sqlite";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { takeInstanceLock } from "../../src/store/open.ts";
import { openAuditor } from "../support/auditor/auditor.ts";
import { binaryPath } from "../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { ServingProcess } from "../support/binary/servingProcess.ts";
import { chat } from "../support/gateway/chatCalls.ts";
import { oneModel, configText } from "../support/gateway/gatewayConfig.ts";
import { completion } from "../support/provider/chatAnswers.ts";
import { json, startProvider } from "../support/provider/scriptedProvider.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import { freshDatabase, type TestDatabase } from "../support/servers/postgres.ts";
import { fillMonths } from "../support/store/months.ts";
import { openSampleLedger, tamper } from "../support/store/sampleLedger.ts";
import { running } from "../support/store/storeFolder.ts";

const timeoutMs = 60_000;
const migrate = ["migrate", "--from", "tollgate.db", "--config", "fleet.toml"] as const;

describePostgres("migrate", () => {
  const provider = startProvider();
  let server: TestDatabase;
  let cli: CliFolder;
  let lock: ReturnType<typeof takeInstanceLock>;
  beforeEach(async () => {
    server = await freshDatabase();
    cli = await openCliFolder(configText(oneModel(`http://127.0.0.1:${provider.port}/v1`)));
    const config = readFileSync(cli.config, "utf8");
    const url = `[database]\nurl = ${JSON.stringify(server.url)}\n`;
    const fleet = config.replace(/\[database\][^[]*/, "");
    writeFileSync(join(cli.folder, "fleet.toml"), `${url}${fleet}`, { mode: 0o600 });
  });
  afterEach(async () => {
    lock?.release();
    await cli.remove();
    await server.drop();
  });

  /** With a request that a crash has left open. */
  async function copySample(): Promise<void> {
    const ledger = await openSampleLedger();
    const [key] = await ledger.store.keys.list("alice");
    if (key === undefined) throw new Error("alice has a key");
    const owner = { accountId: key.accountId, keyId: key.id, firstKeyId: key.firstKeyId };
    await ledger.record(running("req_open", owner));
    const sqlite = new Database(ledger.path);
    sqlite.run("VACUUM INTO ?", [cli.database]);
    sqlite.close();
    await ledger.close();
  }

  /** The documents that show all records. */
  const records = async (...more: readonly string[]) =>
    Promise.all(
      [
        ["accounts", "list"],
        ["keys", "list"],
        ["balance", "history", "alice"],
        ["usage", "--by", "key"],
        ["requests"],
      ].map((args) => cli.json(...args, ...more)),
    );

  const problems = async () => await openAuditor({ url: server.url }).problems();

  test(
    "copies all records; the file stays as it is, and a request that was open is interrupted",
    async () => {
      await copySample();
      await cli.json("audit");
      const bytes = Bun.hash(readFileSync(cli.database));
      expect(await cli.json(...migrate)).toMatchObject({
        ok: true,
        from: cli.database,
        accounts: 2,
        keys: 3,
        ledger_rows: 6,
        requests: 5,
        interrupted: 1,
        balance_rub: "0.00144882",
      });
      expect(Bun.hash(readFileSync(cli.database))).toBe(bytes);
      expect(await cli.json("audit", "--config", "fleet.toml")).toMatchObject({ ok: true });
      expect(await problems()).toEqual([]);
      const there = await records("--config", "fleet.toml");
      // The start of a gateway interrupts what is open in the file.
      const process = new ServingProcess([await binaryPath(), "serve"], cli.folder);
      await process.start();
      await process.stop();
      expect(await records()).toEqual(there);
    },
    timeoutMs,
  );

  test(
    "keeps keys and balances: the same key pays on a replica",
    async () => {
      const { key } = (await cli.json("keys", "create", "--account", "alice")) as { key: string };
      await cli.json("balance", "credit", "alice", "10");
      await cli.json(...migrate);
      await using replica = {
        process: new ServingProcess(
          [await binaryPath(), "serve", "--config", "fleet.toml"],
          cli.folder,
        ),
        async [Symbol.asyncDispose]() {
          await this.process.stop();
        },
      };
      await replica.process.start();
      provider.answer = json(completion({ usage: { prompt_tokens: 5, completion_tokens: 7 } }));
      const { status } = await chat({ url: replica.process.url }, { key });
      expect(status).toBe(200);
      const list = await cli.json("requests", "--config", "fleet.toml");
      expect(list).toMatchObject([{ status: "done" }]);
      expect(await problems()).toEqual([]);
    },
    timeoutMs,
  );

  describe("copies nothing and exits with 1:", () => {
    test.each<[string, string, () => Promise<unknown>]>([
      ["from a file that is not there", "there is no database at ", async () => undefined],
      [
        "while a gateway runs on the file",
        "a gateway is running on ",
        async () => {
          await copySample();
          lock = takeInstanceLock(cli.database);
        },
      ],
      [
        "from a file whose records do not agree",
        "nothing was copied: the audit of ",
        async () => {
          await copySample();
          tamper({ path: cli.database }, "UPDATE accounts SET balance = balance + 1");
        },
      ],
      [
        "into a database with records",
        "is not empty: make a new one for the copy",
        async () => {
          await copySample();
          await cli.json("accounts", "create", "carol", "--config", "fleet.toml");
        },
      ],
      [
        "with the config of a SQLite database",
        "the config has a SQLite database",
        async () => {
          await copySample();
          await cli.run("config");
          writeFileSync(join(cli.folder, "fleet.toml"), readFileSync(cli.config), { mode: 0o600 });
        },
      ],
    ])(
      "%s",
      async (_, message, prepare) => {
        await prepare();
        const { status, stdout, stderr } = await cli.run(...migrate);
        expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
        expect(stderr).toMatch(/^error: [^\p{C}]+$/u);
        expect(stderr).toContain(message);
        expect(stderr).not.toContain(new URL(server.url).password || "no password");
      },
      timeoutMs,
    );
  });

  test(
    "that is killed in the middle leaves an empty database, and the next one copies all",
    async () => {
      fillMonths(cli.database, {
        requests: 30_000,
        accounts: 30,
        keys: 60,
        days: 50,
        untilMs: Date.now(),
      });
      const child = Bun.spawn([await binaryPath(), ...migrate], {
        cwd: cli.folder,
        stdio: ["ignore", "pipe", "pipe"],
      });
      for await (const text of child.stderr)
        if (new TextDecoder().decode(text).includes("copying")) break;
      child.kill("SIGKILL");
      expect(await child.exited).toBe(137);
      expect(await cli.json("accounts", "list", "--config", "fleet.toml")).toEqual([]);
      expect(await cli.json(...migrate)).toMatchObject({ ok: true });
      expect(await cli.run(...migrate)).toMatchObject({
        status: 1,
        stderr: expect.stringContaining("is not empty"),
      });
      expect(await cli.json("audit", "--config", "fleet.toml")).toMatchObject({ ok: true });
    },
    timeoutMs,
  );
});
