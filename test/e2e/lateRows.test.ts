import { expect, test } from "bun:test";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import { call, chat } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { requestIdOf, startProvider } from "../support/provider/scriptedProvider.ts";

/** It never answers. */
const provider = startProvider(() => {});
const setup = openBinaryBefore(oneModel(`http://127.0.0.1:${provider.port}/v1`), provider);

/** The id of the request that came as the nth, from 0. */
async function idOf(nth: number): Promise<string> {
  return requestIdOf(await provider.request(nth)) ?? "";
}

test("a crash interrupts a request that is open for a second; a shorter one leaves no record and no hold", async () => {
  const { gateway, key } = setup;
  const { cli } = gateway;
  const receipt = (id: string) => call(gateway, { key }, { path: `/v1/requests/${id}` });
  const balance = () => cli.json("balance", "show", "alice");

  void chat(gateway, { key }).catch(() => {});
  const long = await idOf(0);
  await gateway.lateRow();
  expect(await cli.json("requests", "--status", "running")).toMatchObject([{ id: long }]);
  expect(await receipt(long)).toMatchObject({ status: 200, body: { status: "running" } });

  const debited = await cli.run("balance", "debit", "alice", "1000");
  expect(debited).toMatchObject({ status: 1, stdout: "" });
  expect(debited.stderr).toContain("waiting up to 2 s for money that the gateway has reserved");

  void chat(gateway, { key }).catch(() => {});
  const short = await idOf(1);
  expect((await receipt(short)).status).toBe(404);
  const since = gateway.log.length;
  await gateway.kill();
  await gateway.start();

  const interrupted = ({ msg }: { msg: string }) => msg.includes("interrupted");
  expect(await gateway.logged("a request is interrupted", interrupted, since)).toMatchObject({
    count: 1,
    held_rub: expect.not.stringMatching(/^0$/),
  });
  expect(await receipt(long)).toMatchObject({ body: { status: "interrupted", cost_rub: "0" } });
  expect((await receipt(short)).status).toBe(404);
  expect(await balance()).toMatchObject({ held_rub: "0", available_rub: "1000" });
  await cli.json("balance", "debit", "alice", "1000");
  await gateway.expectAuditPasses();
});
