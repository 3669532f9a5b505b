import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { stat } from "node:fs/promises";
import { usual } from "../support/provider/chatAnswers.ts";
import { call, chat } from "../support/gateway/chatCalls.ts";
import { configText, oneModel, type GatewayConfig } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";
import { testSqlite } from "../support/testedEngines.ts";

const provider = startProvider(usual);
const config = oneModel(`http://127.0.0.1:${provider.port}/v1`);
let gateway: GatewayProcess;

beforeAll(async () => {
  gateway = await startGatewayProcess(config);
}, startTimeoutMs);
afterEach(() => gateway.expectAuditPasses());
afterAll(async () => {
  await gateway.close();
  provider.stop();
});

describe("the running gateway obeys a command at its very next request", () => {
  test("a credit turns 402 into 200", async () => {
    const key = await gateway.key("poor", "0");
    expect((await chat(gateway, { key })).status).toBe(402);
    await gateway.cli.json("balance", "credit", "poor", "1");
    await gateway.toldOfChanges();
    expect((await chat(gateway, { key })).status).toBe(200);
  });

  test("a debit turns 200 into 402", async () => {
    const key = await gateway.key("spender", "1");
    const first = await chat(gateway, { key });
    expect(first.status).toBe(200);
    const { balance_rub: left } = (await gateway.cli.json("balance", "show", "spender")) as {
      balance_rub: string;
    };
    await gateway.cli.json("balance", "debit", "spender", left);
    await gateway.toldOfChanges();
    expect((await chat(gateway, { key })).status).toBe(402);
  });

  test("a revoked key turns 200 into 401, and leaves the account's other key alone", async () => {
    const made = (await gateway.cli.json("keys", "create", "--account", "two")) as {
      id: string;
      key: string;
    };
    const other = await gateway.key("two", "1");
    expect((await chat(gateway, made)).status).toBe(200);
    await gateway.cli.json("keys", "revoke", made.id);
    await gateway.toldOfChanges();
    expect(await chat(gateway, made)).toMatchObject({
      status: 401,
      body: { error: { message: "invalid api key", type: "auth_error" } },
    });
    expect((await chat(gateway, { key: other })).status).toBe(200);
  });

  test("a disabled account turns 200 into 401, and back", async () => {
    const key = await gateway.key("paused", "1");
    expect((await chat(gateway, { key })).status).toBe(200);
    await gateway.cli.json("accounts", "disable", "paused");
    await gateway.toldOfChanges();
    expect((await chat(gateway, { key })).status).toBe(401);
    await gateway.cli.json("accounts", "enable", "paused");
    await gateway.toldOfChanges();
    expect((await chat(gateway, { key })).status).toBe(200);
  });

  test("a new key works, within the models that it was given", async () => {
    const key = await gateway.key("new", "1", "--models", "other-*");
    expect((await chat(gateway, { key })).status).toBe(404);
    expect((await chat(gateway, { key: await gateway.key("new", "0") })).status).toBe(200);
  });

  test("and the command sees what the gateway charged a moment ago", async () => {
    const key = await gateway.key("seen", "1");
    const { headers, id } = await chat(gateway, { key });
    const [charge] = (await gateway.cli.json("balance", "history", "seen")) as object[];
    expect(charge).toMatchObject({
      kind: "charge",
      request_id: id,
      amount_rub: `-${headers.get("x-tollgate-cost-rub")}`,
    });
  });
});

testSqlite("a second gateway on the same database ends with status 1 and the reason", async () => {
  const { status, stderr } = await gateway.cli.run("serve");
  expect(status).toBe(1);
  expect(stderr).toContain("another gateway is running on this database");
  expect(stderr.split("\n")).toHaveLength(1);
  expect((await call(gateway, undefined, { path: "/healthz" })).status).toBe(200);
});

testSqlite("only their owner can read the database's files", async () => {
  const modes: Record<string, string> = {};
  for (const suffix of ["", "-wal", "-shm", ".lock"]) {
    const { mode } = await stat(gateway.cli.database + suffix);
    modes[suffix] = (mode & 0o777).toString(8);
  }
  expect(modes).toEqual({ "": "600", "-wal": "600", "-shm": "600", ".lock": "600" });
});

describe("SIGHUP", () => {
  const write = (next: GatewayConfig | string) =>
    typeof next === "string" ? Bun.write(gateway.cli.config, next) : gateway.configure(next);
  /** Sends the signal, and resolves when the log has its result. */
  const reload = async (message: string) => {
    const since = gateway.log.length;
    gateway.signal("SIGHUP");
    return gateway.logged(message, ({ msg }) => msg === message, since);
  };
  const modelIds = async (key: string) => {
    const { body } = await call(gateway, { key }, { path: "/v1/models" });
    return (body as { data: { id: string }[] }).data.map(({ id }) => id);
  };

  test("adds a model with its own price, and removes it again", async () => {
    const key = await gateway.key("reloader", "1");
    const cheap = {
      rub_input_per_1m: 1,
      rub_output_per_1m: 1,
      rub_cached_input_per_1m: 1,
      rub_cache_write_per_1m: 1,
    };
    const added = { id: "added", routes: [{ provider: "local" }], settings: cheap };
    await write({ ...config, models: [...config.models, added] });
    await reload("config reloaded");
    expect(await modelIds(key)).toEqual(["small", "added"]);
    const reply = await chat(gateway, { key }, { model: "added" });
    expect(reply.headers.get("x-tollgate-cost-rub")).toBe("0.000000027");
    await write(config);
    await reload("config reloaded");
    expect((await chat(gateway, { key }, { model: "added" })).status).toBe(404);
  });

  test.each([
    ["broken TOML", "[server"],
    [
      "an unknown provider",
      configText(config).replace('provider = "local"', 'provider = "nobody"'),
    ],
    ["an unknown key", `colour = "red"\n${configText(config)}`],
  ])("with %s changes nothing and is logged", async (_, text) => {
    const key = await gateway.key("reloader", "1");
    await write(text);
    const line = await reload("config rejected, the old config stays in force");
    expect(line).toMatchObject({ level: "error", problem: expect.stringMatching(/.+/) });
    await write(config);
    expect(await modelIds(key)).toEqual(["small"]);
    expect((await chat(gateway, { key })).status).toBe(200);
  });
});
