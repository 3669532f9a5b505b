import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { operations } from "../../../src/administration/operations.ts";
import { takeInstanceLock } from "../../../src/store/open.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import {
  signIn,
  startConsole,
  type ConsolePage,
  type ConsoleProcess,
} from "../../support/binary/consoleProcess.ts";
import { ended, fund, openStoreFolder } from "../../support/store/storeFolder.ts";

let cli: CliFolder;
let running: ConsoleProcess;
let page: ConsolePage;
beforeAll(async () => {
  cli = await openCliFolder();
  cli.makeDatabase();
  running = await startConsole(cli);
  page = await signIn(running);
}, 60_000);
afterAll(async () => {
  await running.stop();
  await cli.remove();
});

interface Row {
  readonly id: number;
  readonly actor: string;
  readonly command: string;
  readonly subject: string;
  readonly detail: string | null;
}

/** The rows of the admin log after this id. */
function logAfter(id: number): Row[] {
  using database = new Database(cli.database, { readonly: true });
  return database
    .query<Row, [number]>(
      "SELECT id, actor, command, subject, detail FROM admin_log WHERE id > ? ORDER BY id",
    )
    .all(id);
}

const lastLogged = () => logAfter(0).at(-1)?.id ?? 0;

/** The value with stand-ins for what differs between two equal changes. */
function comparable(value: unknown, account: string): unknown {
  const text = JSON.stringify(value)
    .replaceAll(account, "ACCOUNT")
    .replaceAll(/key_[0-9a-z]{20}/g, "KEY")
    .replaceAll(/vch_[0-9a-z]{20}/g, "VOUCHER")
    .replaceAll(/"(prefix|code)":"[^"]+"/g, '"$1":"CODE"')
    .replaceAll(/sk-tg-[0-9A-Za-z]+/g, "SECRET")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/"id":\d+/g, '"id":0');
  return JSON.parse(text);
}

/** Charges a request of the account, as a gateway does. */
async function chargeOne(account: string, key: string): Promise<void> {
  const storeFolder = await openStoreFolder(cli.database);
  const owner = await fund(storeFolder.store, account, 0n, { name: key, budget: null });
  await storeFolder.record(ended(`req_${account}`, owner));
  await storeFolder.close();
}

const settings = {
  label: "laptop",
  expires: "2090-01-01",
  rpm: "60",
  tpm: "0",
  concurrent: "2",
  models: "small,gi*",
  budget: "12.5",
};
const flags = (values: Readonly<Record<string, string>>) =>
  Object.entries(values).map(([name, value]) => `--${name} ${value}`);

/**
 * In this order, with the account A, and the ids K and V of the key and of the voucher that were created last. A change that finds its ref, or a key
 * that is revoked already, writes no row into the admin log.
 */
const pairs: readonly {
  readonly command: string;
  readonly path: string;
  readonly body?: Readonly<Record<string, string>>;
  readonly isLogged?: false;
}[] = [
  {
    command: "accounts create A --overdraft 5",
    path: "accounts",
    body: { name: "A", overdraft: "5" },
  },
  {
    command: "balance credit A 100 --ref pay-A --note first",
    path: "accounts/A/credit",
    body: { amount: "100", ref: "pay-A", note: "first" },
  },
  {
    command: "balance credit A 100 --ref pay-A",
    path: "accounts/A/credit",
    body: { amount: "100", ref: "pay-A" },
    isLogged: false,
  },
  {
    command: "balance debit A 0.000000001",
    path: "accounts/A/debit",
    body: { amount: "0.000000001" },
  },
  {
    command: "accounts set A --overdraft none",
    path: "accounts/A/settings",
    body: { overdraft: "none" },
  },
  { command: "accounts disable A", path: "accounts/A/disable" },
  { command: "accounts enable A", path: "accounts/A/enable", body: {} },
  {
    command: "balance refund req_A --amount 0.000000295 --ref sorry-A --note part",
    path: "requests/req_A/refund",
    body: { amount: "0.000000295", ref: "sorry-A", note: "part" },
  },
  { command: "balance refund req_A", path: "requests/req_A/refund" },
  { command: "keys create --account A2", path: "keys", body: { account: "A2" } },
  {
    command: `keys create --account A ${flags(settings).join(" ")}`,
    path: "keys",
    body: { account: "A", ...settings },
  },
  {
    command: "keys set K --label none --rpm 0 --budget none",
    path: "keys/K/settings",
    body: { label: "none", rpm: "0", budget: "none" },
  },
  { command: "keys rotate K --grace 1h", path: "keys/K/rotate", body: { grace: "1h" } },
  { command: "keys rotate K", path: "keys/K/rotate" },
  { command: "keys revoke K", path: "keys/K/revoke" },
  { command: "keys revoke K", path: "keys/K/revoke", isLogged: false },
  {
    command: "vouchers create --amount 500 --expires 2090-01-01 --note gift",
    path: "vouchers",
    body: { amount: "500", expires: "2090-01-01", note: "gift" },
  },
  { command: "vouchers revoke V", path: "vouchers/V/revoke" },
  { command: "vouchers revoke V", path: "vouchers/V/revoke", isLogged: false },
];

test("a change answers and logs what its command does", async () => {
  const ids = { shell: "", web: "" };
  for (const pair of pairs) {
    const { command, path, body, isLogged = true } = pair;
    const fill = (text: string, who: keyof typeof ids) =>
      text.replaceAll(/\bA(?=2?\b)|(?<=[-_])A\b/g, who).replaceAll(/\b[KV]\b/g, ids[who]);
    if (command.startsWith("balance refund req_A --amount")) {
      await chargeOne("shell", "first");
      await chargeOne("web", "second");
    }
    const before = lastLogged();
    const printed = await cli.json(...fill(command, "shell").split(" "));
    const between = lastLogged();
    const answer = await page.post(
      `/api/${fill(path, "web")}`,
      body && JSON.parse(fill(JSON.stringify(body), "web")),
    );
    const answered: unknown = await answer.json();
    expect([command, answer.status, comparable(answered, "web")]).toEqual([
      command,
      200,
      comparable(printed, "shell"),
    ]);
    expect(Object.keys(answered as object)).toEqual(Object.keys(printed as object));
    const rows = (after: number) => logAfter(after).map((row) => Object.assign(row, { id: 0 }));
    const logged = rows(before).slice(0, isLogged ? 1 : 0);
    expect(logged).toHaveLength(isLogged ? 1 : 0);
    // The admin log has the name of the operation.
    for (const row of logged) expect(`${command} `).toStartWith(`${row.command} `);
    expect(comparable(rows(between), "web")).toEqual(comparable(logged, "shell"));
    for (const [who, document] of [
      ["shell", printed],
      ["web", answered],
    ] as const) {
      const [one] = [document].flat() as { readonly id?: string }[];
      ids[who] = one?.id ?? "";
    }
  }
  expect(await cli.json("audit")).toMatchObject({ ok: true });
}, 60_000);

describe("with an account and a key", () => {
  let key: string;
  let revoked: string;
  beforeAll(async () => {
    await cli.json("accounts", "create", "alice");
    await cli.json("balance", "credit", "alice", "100", "--ref", "pay-1");
    const create = async () =>
      ((await cli.json("keys", "create", "--account", "alice")) as { id: string }).id;
    key = await create();
    revoked = await create();
    await cli.json("keys", "revoke", revoked);
  }, 60_000);

  /** K is the id of a key, and R that of a revoked one. The body has what the command has. */
  test.each<[status: number, field: string | undefined, path: string, command: string]>([
    [400, "name", "accounts", "accounts create a/b"],
    [400, "overdraft", "accounts", "accounts create bob --overdraft=-1"],
    [409, undefined, "accounts", "accounts create alice"],
    [404, undefined, "accounts/nobody/credit", "balance credit nobody 1"],
    [404, undefined, "accounts/a%2Fb/credit", "balance credit a/b 1"],
    [400, "amount", "accounts/alice/credit", "balance credit alice 0"],
    [400, "amount", "accounts/alice/credit", "balance credit alice 1,5"],
    [400, "amount", "accounts/alice/credit", "balance credit alice 9999999999"],
    [400, "ref", "accounts/alice/credit", "balance credit alice 1 --ref req:1"],
    [400, "note", "accounts/alice/credit", "balance credit alice 1 --note a\u202eb"],
    [409, undefined, "accounts/alice/credit", "balance credit alice 2 --ref pay-1"],
    [409, undefined, "accounts/alice/debit", "balance debit alice 100.000000001"],
    [404, undefined, "accounts/nobody/settings", "accounts set nobody --overdraft 1"],
    [400, "overdraft", "accounts/alice/settings", "accounts set alice --overdraft="],
    [404, undefined, "accounts/nobody/disable", "accounts disable nobody"],
    [404, undefined, "accounts/nobody/enable", "accounts enable nobody"],
    [404, undefined, "requests/req_x/refund", "balance refund req_x"],
    [400, "amount", "requests/req_x/refund", "balance refund req_x --amount x"],
    [409, undefined, "requests/req_web/refund", "balance refund req_web"],
    [400, "account", "keys", "keys create --account="],
    [400, "label", "keys", "keys create --account alice --label="],
    [400, "expires", "keys", "keys create --account alice --expires 2020-01-01"],
    [400, "expires", "keys", "keys create --account alice --expires 99999d"],
    [400, "rpm", "keys", "keys create --account alice --rpm none"],
    [400, "models", "keys", "keys create --account alice --models big"],
    [400, undefined, "keys/K/settings", "keys set K"],
    [400, "budget", "keys/K/settings", "keys set K --budget 0"],
    [400, "models", "keys/K/settings", "keys set K --models big"],
    [404, undefined, "keys/key_x/settings", "keys set key_x --rpm 1"],
    [409, undefined, "keys/R/settings", "keys set R --rpm 1"],
    [400, "grace", "keys/K/rotate", "keys rotate K --grace 400d"],
    [404, undefined, "keys/key_x/rotate", "keys rotate key_x"],
    [409, undefined, "keys/R/rotate", "keys rotate R"],
    [404, undefined, "keys/key_x/revoke", "keys revoke key_x"],
    [400, "amount", "vouchers", "vouchers create --amount=-1"],
    [400, "count", "vouchers", "vouchers create --amount 1 --count 0"],
    [400, "expires", "vouchers", "vouchers create --amount 1 --expires 2020-01-01"],
    [404, undefined, "vouchers/vch_x/revoke", "vouchers revoke vch_x"],
    [400, undefined, "keys/sk-tg-secret/revoke", "keys revoke sk-tg-secret"],
  ])("an error has the words of the command: %i %p %s %s", async (...refused) => {
    const [status, field, path, command] = refused;
    const body = bodyOf(path, command);
    const fill = (text: string) => text.replaceAll(/\bK\b/g, key).replaceAll(/\bR\b/g, revoked);
    const before = lastLogged();
    const { stderr, status: exit } = await cli.run(...fill(command).split(" "));
    const answer = await page.post(`/api/${fill(path)}`, body);
    const { error } = (await answer.json()) as { error: { message: string; field?: string } };
    expect(exit).not.toBe(0);
    expect(error.message).not.toBeEmpty();
    expect(stderr).toEndWith(error.message);
    expect([answer.status, error.field]).toEqual([status, field]);
    expect(lastLogged()).toBe(before);
  });

  test.each<[name: string, body: string | undefined, message: string]>([
    ["no body", undefined, "amount is required"],
    ["an empty body", "", "amount is required"],
    ["a text that is no JSON", "amount=1", "body is not valid JSON"],
    ["a list", "[]", "body must be a JSON object"],
    ["a number", '{"amount":1}', "amount must be a string"],
    ["null", '{"amount":"1","ref":null}', "ref must be a string"],
    ["an unknown field", '{"amount":"1","reference":"x"}', "reference is not supported"],
    ["a field twice", '{"amount":"1","amount":"2"}', "amount stands twice"],
    [
      "a body over 16 KiB",
      JSON.stringify({ amount: "1", note: "n".repeat(16 * 1024) }),
      "request body is too large",
    ],
  ])("a credit is refused with %s", async (_, body, message) => {
    const before = lastLogged();
    const answer = await fetch(`${running.url}/api/accounts/alice/credit`, {
      method: "POST",
      headers: {
        cookie: page.cookie,
        origin: running.url,
        "x-tollgate-console": page.pageSecret,
        ...(body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body }),
    });
    expect([answer.status, await answer.json()]).toEqual([400, { error: { message } }]);
    expect(lastLogged()).toBe(before);
  });

  test("a change without values refuses a value", async () => {
    const answer = await page.post("/api/accounts/alice/disable", { disabled: "false" });
    expect([answer.status, await answer.json()]).toEqual([
      400,
      { error: { message: "disabled is not supported" } },
    ]);
    expect(await cli.json("accounts", "show", "alice")).toMatchObject({ disabled: false });
  });

  test("money that the gateway has reserved is waited for, and then refused", async () => {
    await cli.json("accounts", "create", "carol");
    await cli.json("balance", "credit", "carol", "100");
    const storeFolder = await openStoreFolder(cli.database);
    const { accountId } = await fund(storeFolder.store, "carol", 0n);
    await storeFolder.reserve(accountId, 70_000_000_000n);
    const lock = takeInstanceLock(cli.database);
    const debit = () => page.post("/api/accounts/carol/debit", { amount: "40" });
    const [refused, { stderr }] = await Promise.all([
      debit(),
      cli.run("balance", "debit", "carol", "40"),
    ]);
    const { error } = (await refused.json()) as { error: { message: string } };
    expect([refused.status, stderr.split("\n").at(-1)]).toEqual([409, `error: ${error.message}`]);
    expect(error.message).toContain("the gateway has reserved 70 for open requests");
    const waiting = debit();
    await storeFolder.reserve(accountId, 1n);
    expect(await (await waiting).json()).toMatchObject({ applied: true, balance_rub: "60" });
    lock?.release();
    await storeFolder.reserve(accountId, 0n);
    await storeFolder.close();
  }, 60_000);

  test("a database that another process locks is a failure in the words of the command", async () => {
    using database = new Database(cli.database);
    database.run("BEGIN IMMEDIATE");
    const [answer, { stderr }] = await Promise.all([
      page.post("/api/accounts/alice/credit", { amount: "1" }),
      cli.run("balance", "credit", "alice", "1"),
    ]);
    database.run("ROLLBACK");
    const { error } = (await answer.json()) as { error: { message: string } };
    expect([answer.status, `error: ${error.message}`]).toEqual([500, stderr]);
    expect(stderr).toContain("database is locked by another process");
  }, 60_000);

  test("the ledger is consistent at the end", async () => {
    expect(await cli.json("audit")).toMatchObject({ ok: true });
  });
});

describe("GET /api/openapi.json", () => {
  test("needs the session", async () => {
    expect((await fetch(`${running.url}/api/openapi.json`)).status).toBe(401);
  });

  test("describes each operation with a route as its declaration says", async () => {
    const answer = await page.get("/api/openapi.json");
    expect(answer.headers.get("content-type")).toBe("application/json");
    const document = Object(await answer.json());
    expect(await new Validator().validate(structuredClone(document))).toEqual({ valid: true });
    const described = Object.entries<Record<string, { summary: string }>>(document.paths).flatMap(
      ([path, methods]) =>
        Object.entries(methods).map(
          ([method, { summary }]) => `${method.toUpperCase()} ${path}: ${summary}`,
        ),
    );
    const declared = operations.flatMap(({ route, doc }) =>
      route === undefined ? [] : [`${route.replaceAll(/:(\w+)/g, "{$1}")}: ${doc}`],
    );
    expect(described.toSorted()).toEqual(declared.toSorted());
    expect(document.paths["/api/accounts/{account}/credit"].post).toMatchObject({
      operationId: "balanceCredit",
      parameters: [{ name: "account", in: "path", required: true }],
      requestBody: {
        content: {
          "application/json": {
            schema: {
              required: ["amount"],
              additionalProperties: false,
              properties: { amount: { type: "string", description: "such as 100 or 12.5" } },
            },
          },
        },
      },
      responses: { default: { description: "The operation failed and changed nothing." } },
    });
  });
});

/** The values of a command in the words of its route: its options, and a last argument that is no part of the path. */
function bodyOf(path: string, command: string): Readonly<Record<string, string>> {
  const [words = "", ...options] = command.split(" --");
  const last = words.split(" ").at(-1) ?? "";
  const isAmount = /\/(?:credit|debit)$/.test(path);
  return {
    ...(path === "accounts" && { name: last }),
    ...(isAmount && { amount: last }),
    ...Object.fromEntries(options.map((option) => option.split(/[ =]/, 2))),
  };
}
