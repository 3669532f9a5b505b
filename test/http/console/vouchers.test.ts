import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { loadConfig } from "../../../src/config/load.ts";
import type { VoucherList } from "../../../src/contract/operator/lists.ts";
import { openConsole, type ConsoleUnderTest } from "../../support/gateway/consoleUnderTest.ts";
import { monthsConfig } from "../../support/store/months.ts";
import { actor, fund, openStoreFolder, type StoreFolder } from "../../support/store/storeFolder.ts";
import { issueVoucher, issueVouchers, type IssuedVoucher } from "../../support/store/vouchers.ts";

let storeFolder: StoreFolder;
let page: ConsoleUnderTest;
let redeemed: IssuedVoucher;
/** Five vouchers: three open, one that expires, and one that alice redeemed, in this order. */
beforeAll(async () => {
  storeFolder = await openStoreFolder();
  const { store, writer, folder, path } = storeFolder;
  await issueVouchers(store, 3, { note: "Shop" });
  await issueVoucher(store, { expiresAt: actor.at + 5 });
  redeemed = await issueVoucher(store);
  const { accountId } = await fund(store, "alice", 0n);
  const redemption = { voucherId: redeemed.id, accountId, actor: "key_x", at: actor.at };
  await writer.write({ kind: "redeemVoucher", redemption });
  const config = join(folder, "config.toml");
  await writeFile(config, monthsConfig(path), { mode: 0o600 });
  page = openConsole(store, loadConfig({ path: config }).config, actor.at + 10);
});
afterAll(async () => {
  await page.stop();
  expect((await storeFolder.store.auditHere()).problems).toEqual([]);
  await storeFolder.close();
});

const list = (query: string) => page.read<VoucherList>(`/api/vouchers${query}`);

describe("GET /api/vouchers", () => {
  test("lists vouchers without their codes, the newest first", async () => {
    const { object, data, total } = await list("");
    expect([object, total]).toEqual(["list", 5]);
    expect(data.map(({ state }) => state)).toEqual(["redeemed", "expired", "open", "open", "open"]);
    expect(data[0]).toMatchObject({ id: redeemed.publicId, redeemed_by: "alice" });
    expect(data.some((voucher) => "code" in voucher)).toBe(false);
  });

  test.each([
    ["?limit=2", 2, 5],
    ["?search=shop", 3, 3],
    ["?search=shop&limit=1", 1, 3],
    ["?search=ALICE", 1, 1],
    ["?search=nothing", 0, 0],
    ["?search=", 5, 5],
  ])("with %s has %i of %i", async (query, length, total) => {
    const found = await list(query);
    expect([found.data.length, found.total]).toEqual([length, total]);
  });

  test("goes on at its cursor", async () => {
    const first = await list("?limit=3");
    const second = await list(`?limit=3&before=${first.next}`);
    expect([...first.data, ...second.data]).toEqual((await list("")).data);
    expect([second.next, second.total]).toEqual([null, 5]);
  });

  test("finds a voucher by its beginning and by its whole code", async () => {
    for (const search of [redeemed.prefix, redeemed.code, redeemed.code.toLowerCase()]) {
      const { data, total } = await list(`?search=${encodeURIComponent(search)}`);
      expect([data.map(({ id }) => id), total]).toEqual([[redeemed.publicId], 1]);
    }
  });

  test.each(["?limit=0", "?limit=x"])("refuses %s", async (query) => {
    expect((await page.send(`/api/vouchers${query}`)).status).toBe(400);
  });
});
