import { expect, test } from "bun:test";
import { answered } from "../../support/provider/chatAnswers.ts";
import { chat } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import type { RawPeer } from "../../support/provider/rawServer.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore();

test("a provider that sends unrequested bytes is logged once", async () => {
  const peers: RawPeer[] = [];
  at.provider.answer = (peer, request) => {
    peers.push(peer);
    return answered()(peer, request);
  };
  const key = await at.gateway.key();
  expect((await chat(at.gateway, key)).status).toBe(200);
  await peers[0]?.send("H");
  await peers[0]?.closed;
  expect((await chat(at.gateway, key)).status).toBe(200);
  await peers[1]?.closed;
  const lines = () =>
    at.gateway.log.filter(({ msg }) => String(msg).includes("no request asked for"));
  await until("the log has the line", () => lines().length > 0);
  expect(lines()).toMatchObject([{ level: "warn", provider: "local", cooldown_ms: 300_000 }]);
});
