import { afterEach, expect, test } from "bun:test";
import { answerOnlyPrices, wholeAnswer } from "../support/gateway/answerOnlyPrices.ts";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import { chat, expectRefusal, type ExpectedError } from "../support/gateway/chatCalls.ts";
import { redeem } from "../support/gateway/voucherCalls.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";

interface Voucher {
  readonly id: string;
  readonly code: string;
}

const provider = startProvider(wholeAnswer);
const setup = openBinaryBefore(
  answerOnlyPrices(`http://127.0.0.1:${provider.port}/v1`, 1_000_000),
  provider,
);
const notFound: ExpectedError = [404, "invalid_request_error", "voucher not found"];
afterEach(() => setup.gateway.expectAuditPasses());

async function create(count: number): Promise<readonly Voucher[]> {
  const options = ["--amount", "5", "--count", String(count)];
  return (await setup.gateway.cli.json("vouchers", "create", ...options)) as Voucher[];
}

async function keyWithoutMoney(account: string): Promise<{ readonly key: string }> {
  const key = await setup.gateway.cli.json("keys", "create", "--account", account);
  return key as { key: string };
}

test("a code that a command creates while the gateway serves pays for the next request", async () => {
  const { gateway } = setup;
  const [voucher] = (await create(1)) as [Voucher];
  const carol = await keyWithoutMoney("carol");
  expect((await chat(gateway, carol)).status).toBe(402);
  expect((await redeem(gateway, carol, voucher.code)).body).toMatchObject({
    voucher: voucher.id,
    applied: true,
    balance_rub: "5",
  });
  expect((await chat(gateway, carol)).status).toBe(200);
  const ref = `voucher:${voucher.id}`;
  const history = await gateway.cli.json("balance", "history", "carol");
  expect(history).toMatchObject([{ kind: "charge" }, { kind: "credit", amount_rub: "5", ref }]);
  const repeat = ["balance", "credit", "carol", "5", "--ref", ref] as const;
  const { status, stderr } = await gateway.cli.run(...repeat);
  expect([status, stderr]).toEqual([
    2,
    expect.stringContaining("The prefix voucher: is reserved for vouchers. Use another ref."),
  ]);
});

test("a command revokes a code for the next request, and never one that is redeemed", async () => {
  const { gateway } = setup;
  const dave = await keyWithoutMoney("dave");
  const vouchers = await create(9);
  const outcomes = await Promise.all(
    vouchers.map(async ({ id, code }) => {
      const [revoked, redeemed] = await Promise.all([
        gateway.cli.run("vouchers", "revoke", id),
        redeem(gateway, dave, code),
      ]);
      if (revoked.status === 0) expectRefusal(redeemed, notFound);
      else expect(revoked.stderr).toContain("was redeemed by account");
      return redeemed.status;
    }),
  );
  const { body } = await redeem(gateway, dave, ((await create(1)) as [Voucher])[0].code);
  const redeemed = outcomes.filter((status) => status === 200).length;
  expect(body).toMatchObject({ balance_rub: String(5 * (redeemed + 1)) });
});

test("a redeemed code stays redeemed after kill -9, and is in no log line", async () => {
  const { gateway } = setup;
  const erin = await keyWithoutMoney("erin");
  const [{ code }] = (await create(1)) as [Voucher];
  expect((await redeem(gateway, erin, code)).body).toMatchObject({ applied: true });
  await gateway.kill();
  await gateway.start();
  const { body } = await redeem(gateway, erin, code);
  expect(body).toMatchObject({ applied: false, balance_rub: "5" });
  expectRefusal(await redeem(gateway, await keyWithoutMoney("frank"), code), notFound);
  const log = JSON.stringify(gateway.log);
  expect(log).toContain("/v1/vouchers/redeem");
  expect(log).not.toContain(code);
});
