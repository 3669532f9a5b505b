import { afterEach, describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/clock.ts";
import { ask, call } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { recordRequest } from "../support/store/recordedRequest.ts";
import { ended, fund, openStoreFolder } from "../support/store/storeFolder.ts";
import { testedStore } from "../support/testedEngines.ts";

let gateway: GatewayProcess;
let before: unknown;

/** Starts a gateway on requests of these ages, in days. A negative one is in the future. */
async function startOn(ages: readonly number[]): Promise<void> {
  const config = oneModel("http://127.0.0.1:9/v1", { database: { keep_requests: "30d" } });
  gateway = await startGatewayProcess(config, {
    async prepare(cli) {
      const storeFolder = await openStoreFolder(cli.database);
      const alice = await fund(storeFolder.store, "alice", 1_000_000_000n);
      for (const age of ages) {
        const request = ended(`req_${age}`, alice, { at: Date.now() - age * DAY_MS });
        await recordRequest(storeFolder.writer, request);
      }
      await storeFolder.close();
      if (testedStore === "postgres") await cli.json("migrate", "--from", cli.database);
      before = await cli.json("usage", "--by", "day");
    },
  });
}
afterEach(() => gateway.close());

const keptIds = async () =>
  ((await gateway.cli.json("requests")) as { id: string }[]).map(({ id }) => id);
const untilFolded = () =>
  gateway.logged("old requests are folded", ({ msg }) => msg.startsWith("folded old requests"));

describe("a gateway that starts on old requests", () => {
  test(
    "folds what is older than keep_requests; reports, balances and the history stay",
    async () => {
      // The age that counts is that from the newest request.
      await startOn([400, 100, 32, 29, 1]);
      expect(await untilFolded()).toMatchObject({ count: 3 });
      const { cli } = gateway;
      expect(await keptIds()).toEqual(["req_1", "req_29"]);
      expect(before).toHaveLength(5);
      expect(await cli.json("usage", "--by", "day")).toEqual(before);
      const history = (await cli.json("balance", "history", "alice")) as {
        request_id: string | null;
      }[];
      expect(history.map(({ request_id: id }) => id)).toEqual([
        "req_1",
        "req_29",
        "req_32",
        "req_100",
        "req_400",
        null,
      ]);
      const refund = await cli.run("balance", "refund", "req_100");
      expect(refund.stderr).toContain("use `tollgate balance credit alice`");
      await gateway.expectAuditPasses();
    },
    startTimeoutMs,
  );

  test.each([
    ["behind the last entry", [400, 50, -1], "clock_behind"],
    ["far ahead of all but the last entry", [400, 45, 1], "clock_ahead"],
    ["far ahead of the last entry, by the age that counts", [69, 45], "clock_ahead"],
  ])(
    "warns of a clock that is %s, and folds nothing",
    async (_, ages, event) => {
      await startOn(ages);
      await gateway.logged("the clock is doubted", (line) => line["event"] === event);
      // Folding comes after the warning, and requests after the start of the folding.
      const key = await gateway.key("bob", "1");
      await call(gateway, { key }, { body: ask() });
      expect(await keptIds()).toEqual(expect.arrayContaining(ages.map((age) => `req_${age}`)));
      await gateway.expectAuditPasses();
    },
    startTimeoutMs,
  );
});
