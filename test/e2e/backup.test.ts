import { afterAll, beforeAll, expect } from "bun:test";
import { join } from "node:path";
import { startLoadProvider } from "../support/provider/loadProvider.ts";
import { lostCharges } from "../support/auditor/auditor.ts";
import type { SeenAnswer } from "../support/auditor/logs.ts";
import { chat } from "../support/gateway/chatCalls.ts";
import { embeddingModel, type GatewayConfig } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { sendMixedLoad } from "../support/binary/mixedLoad.ts";
import { answered } from "../support/provider/chatAnswers.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";
import { testSqlite as test } from "../support/testedEngines.ts";
import { until } from "../support/until.ts";

// One word per millisecond, so that answers are always in flight.
const provider = startLoadProvider({ wordDelayMs: 1 });
const silent = startProvider();
const config: GatewayConfig = {
  providers: { local: provider.url, silent: `http://127.0.0.1:${silent.port}/v1` },
  models: [
    { id: "small", routes: [{ provider: "local", responses: true }] },
    { id: "silent", routes: [{ provider: "silent" }] },
    embeddingModel("local"),
  ],
};
let gateway: GatewayProcess;
let key: string;

beforeAll(async () => {
  gateway = await startGatewayProcess(config);
  key = await gateway.key("alice", "1000");
}, startTimeoutMs);
afterAll(async () => {
  await gateway.close();
  provider.stop();
  silent.stop();
});

const atOnce = 16;

test("a backup under load has every charge that a client saw before, and is served again", async () => {
  const go = Promise.withResolvers<void>();
  silent.answer = async (peer, request) => {
    await go.promise;
    await answered()(peer, request);
  };
  // Without the auditor: the restored database does not have its end.
  const long = chat({ url: gateway.url }, { key }, { model: "silent" });
  await gateway.lateRow();
  const answers: SeenAnswer[] = [];
  let isOver = false;
  const load = sendMixedLoad(gateway, key, {
    requests: Number.POSITIVE_INFINITY,
    atOnce,
    isOver: () => isOver,
    seen: (answer) => void answers.push(answer),
  });
  await until("answers come", () => answers.length >= atOnce, 10_000);
  let file = "";
  let before: SeenAnswer[] = [];
  // A quick backup may end before an answer does. Then it is repeated under another name.
  for (let count = 0; answers.length === before.length || count === 0; count += 1) {
    before = [...answers];
    file = join(gateway.cli.folder, `load-${count}.db`);
    expect(await gateway.cli.json("backup", file)).toMatchObject({ file, ok: true });
  }
  const during = answers.length - before.length;
  isOver = true;
  const { whole } = await load;
  go.resolve();
  expect((await long).status).toBe(200);
  expect(await lostCharges({ path: file }, before)).toEqual([]);
  expect(await lostCharges(gateway.place, whole)).toEqual([]);

  const refused = await gateway.cli.run("restore", file);
  expect(refused).toMatchObject({ status: 1, stdout: "" });
  expect(refused.stderr).toContain("a gateway is running on this database");
  expect(await lostCharges(gateway.place, whole)).toEqual([]);

  gateway.signal("SIGTERM");
  expect(await gateway.ended).toBe(0);
  const restored = (await gateway.cli.json("restore", file)) as { newer_requests: number };
  expect(restored.newer_requests).toBeGreaterThanOrEqual(
    whole.length - before.length - during - atOnce,
  );
  const since = gateway.log.length;
  await gateway.start();
  // The request that was open during the backup has no end in it.
  const line = await gateway.logged(
    "holds are released",
    ({ msg }) => msg.includes("interrupted"),
    since,
  );
  expect(line["count"]).toBe(1);
  await gateway.expectAuditPasses();
  expect(await lostCharges(gateway.place, before)).toEqual([]);
  expect((await chat(gateway, { key })).status).toBe(200);
}, 60_000);
