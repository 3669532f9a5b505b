import { expect } from "bun:test";
import { examine } from "../support/binary/doctor.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";
import { testSqlite } from "../support/testedEngines.ts";

// It refuses the servers of tests: they do not wait for the disk.
testSqlite(
  "doctor of the compiled binary looks at a gateway at work, and leaves it at work",
  async () => {
    const provider = startProvider();
    const gateway = await startGatewayProcess(oneModel(`http://127.0.0.1:${provider.port}/v1`));
    try {
      await gateway.key("alice", "5");
      const { status, messages } = await examine(gateway.cli);
      expect(status).toBe(0);
      expect(messages["database"]).toContain("a gateway is running on it");
      expect(messages["clock"]).toContain("not before the last entry of the database");
      expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200);
      await gateway.kill();
      expect((await examine(gateway.cli)).messages["database"]).toContain("no gateway is running");
      await gateway.start();
    } finally {
      await gateway.close();
      provider.stop();
    }
  },
  startTimeoutMs,
);
