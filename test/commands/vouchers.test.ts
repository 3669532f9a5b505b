import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { fund, openStoreFolder } from "../support/store/storeFolder.ts";
import { voucherOf } from "../support/store/vouchers.ts";

const CODE = /^[0-9A-HJKMNP-TV-Z]{5}(?:-[0-9A-HJKMNP-TV-Z]{5}){5}$/;

interface Created {
  readonly id: string;
  readonly code: string;
  readonly prefix: string;
}

let cli: CliFolder;
beforeAll(async () => {
  cli = await openCliFolder();
  cli.makeDatabase();
});
afterAll(async () => {
  expect(await cli.json("audit")).toMatchObject({ ok: true });
  await cli.remove();
});

async function create(...args: readonly string[]): Promise<Created[]> {
  return (await cli.json("vouchers", "create", "--amount", "500", ...args)) as Created[];
}

async function list(...args: readonly string[]): Promise<Record<string, unknown>[]> {
  return (await cli.json("vouchers", "list", ...args)) as Record<string, unknown>[];
}

/** Redeems a code for an account, as a serving gateway does. */
async function redeem(code: string, account: string): Promise<void> {
  const storeFolder = await openStoreFolder(cli.database);
  const { accountId } = await fund(storeFolder.store, account, 0n, { name: code, budget: null });
  const voucher = await voucherOf(storeFolder.store, code);
  const redemption = { voucherId: voucher?.id ?? 0, accountId, actor: "key_x", at: Date.now() };
  const result = await storeFolder.writer.write({ kind: "redeemVoucher", redemption });
  await storeFolder.close();
  expect(result).toEqual({ redeemed: "applied" });
}

describe("tollgate vouchers", () => {
  test("is empty at first, and says how to create one", async () => {
    const { stdout } = await cli.run("vouchers", "list");
    expect(stdout).toBe("no vouchers yet: tollgate vouchers create --amount 500");
    expect((await cli.run("vouchers", "list", "--search", "x")).stdout).toBe(
      "no voucher matches the search",
    );
  });

  test("create prints each code once, and the database does not have it", async () => {
    const options = ["--amount", "12.5", "--count", "3", "--note", "shop"];
    const { status, stdout } = await cli.run("vouchers", "create", ...options);
    const [lead, empty, ...codes] = stdout.split("\n");
    expect([status, lead, empty]).toEqual([
      0,
      "created 3 vouchers of 12.5 roubles each. Store the codes now, they are not shown again:",
      "",
    ]);
    expect(codes).toHaveLength(3);
    expect(new Set(codes).size).toBe(3);
    for (const code of codes) expect(code).toMatch(CODE);
    const shown = (await cli.run("vouchers", "list")).stdout;
    const file = readFileSync(cli.database, "latin1");
    for (const code of codes.flatMap((code) => [code, code.replaceAll("-", "")]))
      expect([shown.includes(code), file.includes(code)]).toEqual([false, false]);
  });

  test("create --json has the code beside the voucher", async () => {
    const [created] = await create("--expires", "90d");
    expect(created).toMatchObject({
      id: expect.stringMatching(/^vch_[0-9a-z]{20}$/),
      code: expect.stringMatching(CODE),
      prefix: created?.code.slice(0, 5),
      amount_rub: "500",
      note: null,
      state: "open",
      redeemed_by: null,
    });
    const { code: _, ...rest } = created ?? { code: "" };
    expect((await list())[0]).toEqual(rest);
  });

  test("list shows who redeemed a voucher, and finds it by its beginning and by the whole code", async () => {
    const [one, other] = (await create("--count", "2")) as [Created, Created];
    await redeem(one.code, "alice");
    for (const search of [
      one.prefix.toLowerCase(),
      one.code,
      one.code.replaceAll("-", " "),
      one.id,
    ])
      expect(await list("--search", search)).toMatchObject([
        { id: one.id, state: "redeemed", redeemed_by: "alice" },
      ]);
    expect(await list("--search", "alice")).toHaveLength(1);
    const { stdout } = await cli.run("vouchers", "list", "--csv");
    const lines = stdout.split("\r\n");
    expect(lines[0]).toBe(
      "id,prefix,amount_rub,note,state,created_at,expires_at,revoked_at,redeemed_at,redeemed_by",
    );
    expect(lines[1]).toStartWith(`${other.id},${other.prefix},500,,open,`);
    expect(lines[2]).toEndWith(",alice");
    const { stdout: text } = await cli.run("vouchers", "list", "--search", one.id);
    expect(text).toMatch(/^id +prefix +amount, RUB +state +expires +redeemed +redeemed by +note\n/);
    expect(text).toContain(`${one.id}  ${one.prefix}`);
  });

  test("revoke ends an open voucher once, and refuses a redeemed one", async () => {
    const [open, redeemed] = (await create("--count", "2")) as [Created, Created];
    await redeem(redeemed.code, "bob");
    const first = await cli.run("vouchers", "revoke", open.id);
    expect([first.status, first.stdout]).toEqual([0, `revoked ${open.id} of 500 roubles`]);
    expect(await cli.json("vouchers", "revoke", open.id)).toMatchObject({
      id: open.id,
      state: "revoked",
      applied: false,
    });
    const refused = await cli.run("vouchers", "revoke", redeemed.id);
    expect(refused.status).toBe(1);
    expect(refused.stderr).toContain(`voucher ${redeemed.id} was redeemed by account "bob" at 20`);
    expect(refused.stderr).toEndWith(": tollgate balance debit bob 500 takes the money back");
    const unknown = await cli.run("vouchers", "revoke", "vch_0");
    expect([unknown.status, unknown.stderr]).toEqual([
      1,
      'error: there is no voucher "vch_0": tollgate vouchers list shows them',
    ]);
  });

  test("revoke does not repeat a code that is given instead of an id", async () => {
    const [created] = (await create()) as [Created];
    const { status, stderr } = await cli.run("vouchers", "revoke", created.code);
    expect([status, stderr]).toEqual([
      2,
      "error: this is a code, not a voucher id: `tollgate vouchers list` shows the id beside the first characters of each code",
    ]);
  });

  test("a backup and a restore keep vouchers", async () => {
    const [open, redeemed] = (await create("--count", "2")) as [Created, Created];
    await redeem(redeemed.code, "carol");
    const before = await list();
    const backup = join(cli.folder, "night.db");
    expect((await cli.run("backup", backup)).status).toBe(0);
    await redeem(open.code, "carol");
    expect((await cli.run("restore", backup)).status).toBe(0);
    expect(await list()).toEqual(before);
    await redeem(open.code, "dave");
    expect(await cli.json("audit")).toMatchObject({ ok: true });
  });
});
