import { describe, expect, test } from "bun:test";
import { balancers, runRollingRestarts } from "../../support/fleet/rollingRestart.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { sample } from "../../support/sample.ts";

/** In CI one of them: what they have in common are the settings of the gateway. */
const chosen = sample(balancers, 1, ({ name }) => name);
const missing = chosen.flatMap((proxy) => proxy.missing ?? []);
if (missing.length > 0) process.stderr.write(`NOT RUN: rolling restarts: ${missing.join("; ")}\n`);

describePostgres("three replicas behind nginx, Caddy and HAProxy", () => {
  describe.skipIf(missing.length > 0)("with the settings of docs/run/reverse-proxy.md", () => {
    // `bun scripts/rollingRestart.ts` does it ten times with 24 clients of each.
    test("restart one after the other, and no request is lost or sent twice", async () => {
      const run = await runRollingRestarts({
        rounds: 1,
        clients: 4,
        drainDelay: "3s",
        proxies: chosen,
      });
      expect(run.problems).toEqual([]);
      for (const { name } of chosen) {
        expect([name, run.counts[name]]).toMatchObject([name, { lost: 0, refusals: [] }]);
        expect(run.counts[name]?.begun).toBeGreaterThan(50);
      }
    }, 120_000);
  });
});
