import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/clock.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { recordRequest } from "../support/store/recordedRequest.ts";
import { ended, fund, openStoreFolder } from "../support/store/storeFolder.ts";
import { testedStore } from "../support/testedEngines.ts";

/** In days. The age that counts is that from the newest request. */
const ages = [400, 100, 32, 29, 1];

let gateway: GatewayProcess;
let before: unknown;
beforeAll(async () => {
  const config = oneModel("http://127.0.0.1:9/v1", { database: { keep_requests: "30d" } });
  gateway = await startGatewayProcess(config, {
    async prepare(cli) {
      const storeFolder = await openStoreFolder(cli.database);
      const alice = fund(storeFolder.store, "alice", 1_000_000_000n);
      for (const age of ages) {
        const request = ended(`req_${age}`, alice, { at: Date.now() - age * DAY_MS });
        await recordRequest(storeFolder.writer, request);
      }
      await storeFolder.close();
      if (testedStore === "postgres") await cli.json("migrate", "--from", cli.database);
      before = await cli.json("usage", "--by", "day");
    },
  });
}, startTimeoutMs);
afterAll(() => gateway.close());

describe("a gateway that starts on old requests", () => {
  test("folds what is older than keep_requests; reports, balances and the history stay", async () => {
    const line = await gateway.logged("old requests are folded", ({ msg }) =>
      msg.startsWith("folded old requests"),
    );
    expect(line).toMatchObject({ count: 3 });
    const { cli } = gateway;
    const left = (await cli.json("requests")) as { id: string }[];
    expect(left.map(({ id }) => id)).toEqual(["req_1", "req_29"]);
    expect(before).toHaveLength(ages.length);
    expect(await cli.json("usage", "--by", "day")).toEqual(before);
    const history = (await cli.json("balance", "history", "alice")) as { request_id: string }[];
    expect(history.map(({ request_id: id }) => id)).toEqual([
      "req_1",
      "req_29",
      "req_32",
      "req_100",
      "req_400",
      null as unknown as string,
    ]);
    const refund = await cli.run("balance", "refund", "req_100");
    expect(refund.stderr).toContain("use `tollgate balance credit alice`");
    await gateway.expectAuditPasses();
  });
});
