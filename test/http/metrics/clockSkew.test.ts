import { afterEach, beforeEach, expect, spyOn, test } from "bun:test";
import { systemClock } from "../../../src/lib/clock.ts";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import { scrape } from "../../support/gateway/scrape.ts";
import { openTestApp } from "../../support/gateway/testApp.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import type { TestDatabase } from "../../support/servers/postgres.ts";
import { replicaDatabase } from "../../support/store/replicaDatabase.ts";

describePostgres("the clock of a replica", () => {
  let database: TestDatabase;
  beforeEach(async () => {
    database = await replicaDatabase();
  });
  afterEach(() => database.drop());

  test.each([
    [-3000, ["3.0 s behind that of the PostgreSQL server"]],
    [5000, ["5.0 s ahead of that of the PostgreSQL server"]],
    [-1500, []],
  ])("that is %d ms from its server's is shown, and told: %p", async (aheadMs, problems) => {
    const clock = spyOn(systemClock, "epochMs").mockImplementation(() => Date.now() + aheadMs);
    const gateway = await openTestApp(
      oneModel("http://127.0.0.1:1/v1", {
        database: { url: database.url },
        metrics: { listen: "127.0.0.1:0" },
      }),
    );
    try {
      const [shown] = (await scrape(gateway.metricsUrl)).all(
        "tollgate_database_clock_skew_seconds",
      );
      expect(shown?.value).toBeWithin(-aheadMs / 1000 - 0.1, -aheadMs / 1000 + 0.1);
      const told = gateway.log.filter(({ event }) => event === "clock_differs");
      expect(told.map(({ problem }) => problem)).toEqual(problems);
    } finally {
      await gateway.close();
      clock.mockRestore();
    }
  });
});
