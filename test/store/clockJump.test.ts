import { describe, expect, test } from "bun:test";
import { DAY_MS } from "../../src/lib/clock.ts";
import { chat } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { openTestApp } from "../support/gateway/testApp.ts";
import { answered } from "../support/provider/chatAnswers.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";
import { describePostgres } from "../support/servers/describeServers.ts";
import { freshDatabase } from "../support/servers/postgres.ts";
import { until, untilAsync } from "../support/until.ts";

/** A gateway whose clock jumps ahead. `database`: the section of its config. */
async function jumpsAhead(database: Record<string, string>): Promise<void> {
  const provider = startProvider();
  provider.answer = answered();
  // A reload with another `keep_requests` looks for old requests at once.
  const keeping = (keep_requests: string) =>
    oneModel(`http://127.0.0.1:${provider.port}/v1`, { database: { ...database, keep_requests } });
  const gateway = await openTestApp(keeping("10d"));
  try {
    gateway.auditor.listenTo(provider);
    const key = await gateway.key();
    const warnings = () => gateway.log.filter(({ event }) => event === "clock_ahead").length;
    const isKept = async (id: string) => (await gateway.store.requests.find(id)) !== undefined;
    const { id: before } = await chat(gateway, key);
    await gateway.advance(40 * DAY_MS);
    const { id: after } = await chat(gateway, key);
    await gateway.records(key, 2);
    await gateway.reload(keeping("2d"));
    await until("the clock is doubted", () => warnings() === 1);
    // In the week that follows nothing is folded, though requests agree with the clock.
    await gateway.advance(6 * DAY_MS);
    const { id: last } = await chat(gateway, key);
    await gateway.records(key, 3);
    await gateway.reload(keeping("3d"));
    await until("the clock is doubted again", () => warnings() === 2);
    expect(await Promise.all([before, after, last].map(isKept))).toEqual([true, true, true]);
    await gateway.advance(2 * DAY_MS);
    await gateway.reload(keeping("4d"));
    await untilAsync("what is old is folded", async () => !(await isKept(after)));
    expect(await Promise.all([before, last].map(isKept))).toEqual([false, true]);
    expect(warnings()).toBe(2);
  } finally {
    await gateway.close();
    provider.stop();
  }
}

const promise = "folds nothing for a week after a jump of its clock, and warns";

describe("a gateway on SQLite", () => {
  test(promise, () => jumpsAhead({}));
});

describePostgres("a gateway on PostgreSQL", () => {
  test(promise, async () => {
    await using database = await freshDatabase();
    await jumpsAhead({ url: database.url });
  });
});
