import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rareZeros } from "../../src/contract/figureParts.ts";
import { DAY_MS } from "../../src/lib/clock.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import {
  actor,
  ended,
  endedPrice,
  fund,
  openStoreFolder,
  running,
  unbilled,
} from "../support/store/storeFolder.ts";

const hostile = "=cmd()\u001b[31m,\u009b2J\u202e";

let cli: CliFolder;
beforeAll(async () => {
  cli = await openCliFolder();
  const storeFolder = await openStoreFolder(cli.database);
  const alice = await fund(storeFolder.store, "alice", 1_000_000_000n);
  const bob = await fund(storeFolder.store, "bob", 1_000_000_000n);
  const nextDay = actor.at + DAY_MS;
  // Its cost is as without them.
  const extras = {
    cacheWrite1hTokens: 5,
    webSearches: 2,
    price: { ...endedPrice, cacheWrite1h: 30n, webSearch: 0n },
  };
  const odd = { model: hostile, stream: true, endpoint: "responses", ...extras } as const;
  const failure = { ...unbilled, provider: null, attempts: [], durationMs: 9, firstByteMs: null };
  for (const record of [
    ended("req_1", alice),
    ended("req_2", alice, { ...odd, at: nextDay, status: "cancelled", estimated: true }),
    ended("req_3", bob, { ...failure, at: nextDay }),
    running("req_4", bob, { at: actor.at + 2 * DAY_MS }),
  ])
    await storeFolder.record(record);
  await storeFolder.close();
}, 60_000);
afterAll(() => cli.remove());

const billed = {
  requests: 1,
  prompt_tokens: 100,
  cached_tokens: 10,
  cache_write_tokens: 5,
  cache_write_1h_tokens: 0,
  completion_tokens: 40,
  web_searches: 0,
  cost_rub: "0.000010295",
  operator_cost_rub: "0.000004",
  failed: 0,
  refunded_rub: "0",
};
const nothing = {
  requests: 1,
  prompt_tokens: 0,
  cached_tokens: 0,
  cache_write_tokens: 0,
  cache_write_1h_tokens: 0,
  completion_tokens: 0,
  web_searches: 0,
  cost_rub: "0",
  operator_cost_rub: "0",
  failed: 0,
  refunded_rub: "0",
};
const extras = { cache_write_1h_tokens: 5, web_searches: 2 };
const both = {
  requests: 2,
  prompt_tokens: 200,
  cached_tokens: 20,
  cache_write_tokens: 10,
  completion_tokens: 80,
  cost_rub: "0.00002059",
  operator_cost_rub: "0.000008",
  failed: 0,
  refunded_rub: "0",
  ...extras,
};

describe("usage", () => {
  test.each([
    [
      "day by default",
      [],
      [
        { day: "2026-01-01", ...billed },
        { day: "2026-01-02", ...billed, ...extras, requests: 2, failed: 1 },
        { day: "2026-01-03", ...nothing },
      ],
    ],
    [
      "model",
      ["--by", "model"],
      [
        { model: hostile, ...billed, ...extras },
        { model: "small", ...billed, requests: 3, failed: 1 },
      ],
    ],
    [
      "provider",
      ["--by", "provider"],
      [
        { provider: "", ...nothing, requests: 2, failed: 1 },
        { provider: "local", ...both },
      ],
    ],
    [
      "account",
      ["--by", "account"],
      [
        { account: "alice", ...both },
        { account: "bob", ...nothing, requests: 2, failed: 1 },
      ],
    ],
    [
      "key",
      ["--by", "key"],
      [
        { key: "key_alice", ...both },
        { key: "key_bob", ...nothing, requests: 2, failed: 1 },
      ],
    ],
    [
      "day for one account",
      ["--account", "bob"],
      [
        { day: "2026-01-02", ...nothing, failed: 1 },
        { day: "2026-01-03", ...nothing },
      ],
    ],
    ["day since a day, inclusive", ["--since", "2026-01-03"], [{ day: "2026-01-03", ...nothing }]],
    ["day until a day, exclusive", ["--until", "2026-01-02"], [{ day: "2026-01-01", ...billed }]],
    ["day in a time without requests", ["--since", "2025-01-01", "--until", "2025-02-01"], []],
  ])("is summed by %s", async (_, args, expected) => {
    expect(await cli.json("usage", ...args)).toEqual(expected);
  });

  test("has a total in the table, and escapes text from outside", async () => {
    const { stdout } = await cli.run("usage", "--by", "model");
    const lines = stdout.split("\n").map((line) => line.replace(/ +/g, " "));
    expect(lines).toEqual([
      "model requests failed prompt cached cache write completion cost, RUB refunded, RUB provider cost, RUB",
      "=cmd()\\u001b[31m,\\u009b2J\\u202e 1 0 100 10 5 40 0.000010295 0 0.000004",
      "small 3 1 100 10 5 40 0.000010295 0 0.000004",
      "total 4 1 200 20 10 80 0.00002059 0 0.000008",
    ]);
  });

  test("is printed as CSV without formulas", async () => {
    const { stdout } = await cli.run("usage", "--by", "model", "--csv");
    expect(stdout.split("\r\n")).toEqual([
      `model,requests,prompt_tokens,cached_tokens,cache_write_tokens,completion_tokens,cost_rub,operator_cost_rub,failed,refunded_rub,cache_write_1h_tokens,web_searches,${rareFields.join()}`,
      `"'${hostile}",1,100,10,5,40,0.000010295,0.000004,0,0,5,2${",0".repeat(rareFields.length)}`,
      `small,3,100,10,5,40,0.000010295,0.000004,1,0,0,0${",0".repeat(rareFields.length)}`,
    ]);
  });
});

/** In JSON only where there are any. */
const rareFields = Object.keys(rareZeros);

const first = {
  id: "req_1",
  at: "2026-01-01T00:00:00.000Z",
  account: "alice",
  key_id: "key_alice",
  endpoint: "chat",
  model: "small",
  provider: "local",
  stream: false,
  status: "done",
  prompt_tokens: 100,
  cached_tokens: 10,
  cache_write_tokens: 5,
  cache_write_1h_tokens: 0,
  completion_tokens: 40,
  web_searches: 0,
  estimated: false,
  cost_rub: "0.000010295",
  write_off_rub: "0",
  attempt_count: 2,
  duration_ms: 357,
  first_byte_ms: 40,
};
const second = {
  ...first,
  ...extras,
  id: "req_2",
  at: "2026-01-02T00:00:00.000Z",
  endpoint: "responses",
  model: hostile,
  stream: true,
  status: "cancelled",
  estimated: true,
};

describe("requests", () => {
  test.each([
    ["all, newest first", [], ["req_4", "req_3", "req_2", "req_1"]],
    ["so many", ["--limit", "2"], ["req_4", "req_3"]],
    ["those of an account", ["--account", "alice"], ["req_2", "req_1"]],
    ["those that ended so", ["--status", "failed"], ["req_3"]],
    ["those of an account that ended so", ["--account", "alice", "--status", "running"], []],
    ["those by a key", ["--key", "key_bob"], ["req_4", "req_3"]],
    ["those of a model", ["--model", "small"], ["req_4", "req_3", "req_1"]],
    ["those since a time, which counts", ["--since", "2026-01-02"], ["req_4", "req_3", "req_2"]],
    ["those until a time, which does not", ["--until", "2026-01-02"], ["req_1"]],
    ["the newest of a time", ["--until", "2026-01-03", "--limit", "1"], ["req_3"]],
    [
      "those of an account in a period",
      ["--account", "bob", "--since", "2026-01-02", "--until", "2026-01-03"],
      ["req_3"],
    ],
    ["those of a time that ended so", ["--since", "2026-01-03", "--status", "failed"], []],
  ])("lists %s", async (_, args, ids) => {
    const rows = (await cli.json("requests", ...args)) as { id: string }[];
    expect(rows.map(({ id }) => id)).toEqual(ids);
  });

  test("have their outcome", async () => {
    expect(await cli.json("requests", "--account", "alice")).toEqual([second, first]);
    const { stdout } = await cli.run("requests", "--account", "alice");
    expect(stdout).toContain("=cmd()\\u001b[31m");
    expect(stdout).toMatch(
      /2026-01-01T00:00:00Z +req_1 +alice +small +local +done +100 +40 +0\.000010295 +357$/,
    );
  });

  test("are shown with prices and attempts", async () => {
    expect(await cli.json("requests", "show", "req_1")).toEqual({
      ...first,
      hold_rub: "0.0001",
      refunded_rub: "0",
      operator_cost_rub: "0.000004",
      rub_input_per_1m: 25,
      rub_output_per_1m: 200,
      rub_cached_input_per_1m: 2,
      rub_cache_write_per_1m: 30,
      rub_cache_write_1h_per_1m: 50,
      rub_web_search_per_1k: 0,
      attempts: [
        { n: 1, provider: "other", outcome: "status 503", status: 503, duration_ms: 12 },
        { n: 2, provider: "local", outcome: "ok", status: 200, duration_ms: 345 },
      ],
    });
    const { stdout } = await cli.run("requests", "show", "req_2");
    expect(stdout).toContain("input               85 tokens at 0.025 RUB per 1M");
    expect(stdout).toContain("cache write         0 tokens at 0.03 RUB per 1M");
    expect(stdout).toContain("cache write, 1 h    5 tokens at 0.03 RUB per 1M");
    expect(stdout).toContain("web searches        2 at 0 RUB");
    expect(stdout).toContain("cost, RUB           0.000010295 (estimated)");
    expect(stdout).toContain("      2  local     ok             200  345");
  });

  test.each([
    ["usage --account alcie", 'there is no account "alcie": tollgate accounts list shows them'],
    ["requests --key key_x", 'there is no key "key_x": tollgate keys list shows them'],
    [
      "requests show req_x",
      'there is no request "req_x", or it is older than [database] keep_requests: `tollgate requests` lists the latest',
    ],
  ])("`tollgate %s` fails with advice", async (line, message) => {
    const { status, stderr } = await cli.run(...line.split(" "));
    expect({ status, stderr }).toEqual({ status: 1, stderr: `error: ${message}` });
  });

  test("that match nothing are reported in one sentence", async () => {
    const { stdout } = await cli.run("requests", "--account", "alice", "--status", "failed");
    expect(stdout).toBe(
      "no matching requests: omit some of --account, --status, --key, --model, --since, --until",
    );
  });

  test("are CSV for a spreadsheet, with the fields of the JSON as columns", async () => {
    const [row] = (await cli.json("requests", "--status", "failed")) as object[];
    const { stdout } = await cli.run("requests", "--status", "failed", "--csv");
    const [head = "", line = "", ...more] = stdout.split("\r\n");
    const columns = [...Object.keys(row ?? {}), ...rareFields];
    expect(head.split(",").toSorted()).toEqual(columns.toSorted());
    expect(line).toBe(
      `req_3,2026-01-02T00:00:00.000Z,bob,key_bob,chat,small,,false,failed,0,0,0,0,false,0,0,0,9,,0,0${",0".repeat(rareFields.length)}`,
    );
    expect(more).toEqual([]);
    const hostiles = await cli.run("requests", "--account", "alice", "--limit", "1", "--csv");
    expect(hostiles.stdout).toContain(`,"'${hostile}",`);
    const none = await cli.run("requests", "--until", "2020-01-01", "--csv");
    expect(none.stdout).toBe(head);
  });

  test("and the history of an account is printed as CSV too", async () => {
    const { stdout } = await cli.run("balance", "history", "alice", "--csv", "--limit", "1");
    const [row] = (await cli.json("balance", "history", "alice", "--limit", "1")) as object[];
    expect(stdout.split("\r\n")).toEqual([
      Object.keys(row ?? {}).join(","),
      expect.stringMatching(/^\d+,2026-01-0\d.*,charge,-0\.000010295,.*,req_2$/),
    ]);
  });
});

describe("audit", () => {
  test("notes what remains after a crash, and exits with 0", async () => {
    const note = "request req_4: is set to interrupted when the gateway starts";
    const report = { ok: true, accounts: 2, requests: 4, problems: [], notes: [note] };
    expect(await cli.json("audit")).toEqual(report);
    const { stdout } = await cli.run("audit");
    expect(stdout).toBe(`the ledger is consistent (accounts: 2, requests: 4)\nnote: ${note}`);
  });

  test("exits with 1 and the problems, and with 0 without problems", async () => {
    const storeFolder = await openStoreFolder(cli.database);
    storeFolder.store.interruptRunning();
    await storeFolder.close();
    const sqlite = new Database(cli.database);
    sqlite.run("UPDATE keys SET spent = spent + 1 WHERE public_id = 'key_bob'");
    const problem = "key key_bob: spent is not the sum of its requests";
    const bad = await cli.run("audit");
    expect(bad).toMatchObject({ status: 1, stdout: problem });
    expect(bad.stderr).toStartWith("error: the ledger is inconsistent (problems: 1)");
    const document = await cli.run("audit", "--json");
    expect(document.status).toBe(1);
    const report = { ok: false, accounts: 2, requests: 4, problems: [problem], notes: [] };
    expect(JSON.parse(document.stdout)).toEqual(report);

    sqlite.run("UPDATE keys SET spent = spent - 1 WHERE public_id = 'key_bob'");
    sqlite.close();
    const good = await cli.run("audit");
    expect(good).toEqual({
      status: 0,
      stdout: "the ledger is consistent (accounts: 2, requests: 4)",
      stderr: "",
    });
  });
});

test("JSON has no character that a terminal interprets", async () => {
  const { stdout } = await cli.run("requests", "--json");
  expect(stdout.replaceAll("\n", "")).not.toMatch(/\p{C}/u);
  expect(stdout).toContain("\\u009b2J\\u202e");
});
