import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AccountList, KeyList, RequestList } from "../../../src/contract/operator/lists.ts";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { openConsole, type ConsoleUnderTest } from "../../support/gateway/consoleUnderTest.ts";
import { accountName, fillMonths, monthsConfig } from "../../support/store/months.ts";
import { openStoreFolder, type StoreFolder } from "../../support/store/storeFolder.ts";
import { configOf } from "../../config/loadText.ts";

const NOW_MS = Date.UTC(2026, 4, 20, 13, 37);
const MONTHS = { requests: 60_000, accounts: 20, keys: 40, days: 70, untilMs: NOW_MS };

let folder: string;
let storeFolder: StoreFolder;
let page: ConsoleUnderTest;
let database: Database;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-search-"));
  const path = join(folder, "tollgate.db");
  fillMonths(path, MONTHS);
  storeFolder = await openStoreFolder(path);
  page = openConsole(storeFolder.store, configOf(monthsConfig(path)), NOW_MS);
  database = new Database(path, { readonly: true });
}, 60_000);
afterAll(async () => {
  database.close();
  await page.stop();
  await storeFolder.close();
  await rm(folder, { recursive: true });
});

const busy = accountName(1);
const quiet = accountName(15);
const since = new Date(NOW_MS - 20 * DAY_MS).toISOString();
const until = new Date(NOW_MS - 10 * DAY_MS).toISOString();

/** A query, and the same condition in SQL. */
const searches: readonly (readonly [string, string])[] = [
  ["", "1"],
  [`account=${busy}`, `a.name = '${busy}'`],
  [`account=${quiet}`, `a.name = '${quiet}'`],
  ["key=key_00000002", "k.public_id = 'key_00000002'"],
  [`account=${quiet}&key=key_00000002`, "0"],
  ["model=gpt-5-mini", "r.model = 'gpt-5-mini'"],
  ["model=no-such-model", "0"],
  ["provider=local", "r.provider = 'local'"],
  ["status=failed", "r.status = 'failed'"],
  ["status=done", "r.status = 'done'"],
  ["status=running", "r.status = 'running'"],
  [`status=cancelled&account=${busy}`, `r.status = 'cancelled' AND a.name = '${busy}'`],
  [`status=done&account=${quiet}`, `r.status = 'done' AND a.name = '${quiet}'`],
  [`since=${since}`, `r.at >= ${Date.parse(since)}`],
  [`until=${until}`, `r.at < ${Date.parse(until)}`],
  [`since=20d&until=10d`, `r.at >= ${Date.parse(since)} AND r.at < ${Date.parse(until)}`],
  ["cost_min=1.5", "r.charge >= 1500000000"],
  ["cost_min=0.001&cost_max=0.002", "r.charge BETWEEN 1000000 AND 2000000"],
  ["cost_max=0", "r.charge = 0"],
  ["only=estimated", "r.estimated"],
  ["only=written_off", "r.write_off > 0"],
  [
    `account=${quiet}&model=gpt-5&status=done&since=${since}&cost_min=0.01`,
    `a.name = '${quiet}' AND r.model = 'gpt-5' AND r.status = 'done' AND r.at >= ${Date.parse(since)} AND r.charge >= 10000000`,
  ],
];

function expectedIds(condition: string): string[] {
  return database
    .query<{ id: string }, []>(
      `SELECT r.public_id AS id FROM requests r JOIN accounts a ON a.id = r.account_id
        JOIN keys k ON k.id = r.key_id WHERE ${condition} ORDER BY r.id DESC`,
    )
    .all()
    .map(({ id }) => id);
}

describe.each(searches)("requests with %p", (query, condition) => {
  test("are found page by page, each once", async () => {
    const expected = expectedIds(condition);
    const found: string[] = [];
    const limit = 1000;
    let next: string | null = "";
    // All pages of the longest lists would take long and show nothing new.
    while (next !== null && found.length < 5 * limit) {
      const before: string = next === "" ? "" : `&before=${next}`;
      const list: RequestList = await page.read(`/api/requests?limit=${limit}&${query}${before}`);
      found.push(...list.data.map(({ id }) => id));
      if (list.searched_to === null && list.next !== null) expect(list.data).toHaveLength(limit);
      ({ next } = list);
    }
    expect(found).toEqual(expected.slice(0, found.length));
    if (next === null) expect(found).toHaveLength(expected.length);
  });

  test("are found in small steps too, and each step says how far it looked", async () => {
    const expected = expectedIds(condition);
    const { requests } = storeFolder.store;
    const [account, key] = [queryOf(query, "account"), queryOf(query, "key")];
    const conditions = { account, key, model: queryOf(query, "model") };
    if (
      Object.values(conditions).filter((one) => one !== undefined).length !==
      query.split("&").length
    )
      return;
    const found: string[] = [];
    let before: number | undefined;
    do {
      const page = { before, limit: 5000, stepRows: 700, examinedMax: 2000 };
      const { rows, next, isCut } = await requests.list(conditions, page);
      found.push(...rows.map(({ id }) => id));
      if (next !== undefined && rows.length < 5000) expect(isCut).toBe(true);
      before = next?.row;
    } while (before !== undefined);
    expect(found).toEqual(expected);
  });
});

function queryOf(query: string, name: string): string | undefined {
  return new URLSearchParams(query).get(name) ?? undefined;
}

const refused: readonly (readonly [string, number, string])[] = [
  ["/api/requests?account=nobody", 404, 'there is no account "nobody"'],
  ["/api/requests?key=key_nothing", 404, 'there is no key "key_nothing"'],
  ["/api/requests?status=lost", 400, "status"],
  ["/api/requests?cost_min=much", 400, "Write roubles as a plain decimal"],
  ["/api/requests?cost_min=-1", 400, "The cost must be 0 or more."],
  ["/api/requests?since=yesterday", 400, "Write a duration such as 7d"],
  ["/api/requests?since=1d&until=2d", 400, "The start must be earlier than the end."],
  ["/api/requests?before=abc", 400, "Write a whole number"],
  ["/api/requests?limit=0", 400, "Write a whole number from 1 to 1000."],
  ["/api/requests?colour=red", 400, "colour"],
  ["/api/requests/req_nothing", 404, 'there is no request "req_nothing"'],
  ["/api/accounts/nobody", 404, 'there is no account "nobody"'],
  ["/api/accounts/nobody/ledger", 404, 'there is no account "nobody"'],
  ["/api/keys?account=nobody", 404, 'there is no account "nobody"'],
  ["/api/overview?span=1y", 400, "span"],
];

test.each(refused)("%s is refused with %p", async (path, status, message) => {
  const response = await page.send(path);
  const body = (await response.json()) as { error: { message: string } };
  expect([response.status, body.error.message]).toEqual([status, expect.stringContaining(message)]);
});

test("accounts are found by a part of the name, also one with the wildcards of SQL", async () => {
  const names = async (search: string) => {
    const list = await page.read<AccountList>(`/api/accounts?search=${encodeURIComponent(search)}`);
    expect(list.total).toBe(list.data.length);
    return list.data.map(({ name }) => name);
  };
  const all = (await storeFolder.store.accounts.list()).map(({ name }) => name);
  expect(await names("LABS")).toEqual(all.filter((name) => name.includes("labs")));
  expect(await names("%")).toEqual([]);
  expect(await names("_")).toEqual([]);
  expect(await names("")).toEqual(all);
  const two = await page.read<AccountList>("/api/accounts?limit=2");
  expect([two.data.length, two.total]).toEqual([2, all.length]);
});

test("keys are found by id, label, prefix and account", async () => {
  const keys = await storeFolder.store.keys.list(undefined);
  for (const search of ["key_00000003", "support", "sk-tg-000005", quiet]) {
    const list = await page.read<KeyList>(`/api/keys?search=${encodeURIComponent(search)}`);
    const expected = keys.filter((key) =>
      [key.publicId, key.label ?? "", key.prefix, key.account].some((text) =>
        text.includes(search),
      ),
    );
    expect(list.data.map(({ id }) => id)).toEqual(expected.map((key) => key.publicId).toReversed());
  }
});

test.each(["accounts?", "accounts?search=labs&", "keys?", "keys?search=blue&"])(
  "/api/%s gives its rows page by page, each once",
  async (path) => {
    const whole = await page.read<AccountList | KeyList>(`/api/${path}limit=1000`);
    const rows: (AccountList | KeyList)["data"][number][] = [];
    let next: string | null = "";
    while (next !== null) {
      const before: string = next === "" ? "" : `&before=${encodeURIComponent(next)}`;
      const one: AccountList | KeyList = await page.read(`/api/${path}limit=3${before}`);
      expect([one.total, one.data.length <= 3]).toEqual([whole.total, true]);
      rows.push(...one.data);
      next = one.next;
    }
    expect(rows).toEqual(whole.data);
    expect(rows.length).toBeGreaterThan(3);
  },
);
