import { expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startGatewayProcess, startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { ask, call } from "../support/gateway/chatCalls.ts";
import type { GatewayConfig } from "../support/gateway/gatewayConfig.ts";
import { usual } from "../support/provider/chatAnswers.ts";
import { refusal, startProvider } from "../support/provider/scriptedProvider.ts";
import { several } from "../support/several.ts";
import { testedProcesses } from "../support/testedEngines.ts";

test(
  "each process has the keys of all accounts, which a reload keeps, and no key is in the log",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "tollgate-accounts-"));
    const runs = join(folder, "runs");
    const script = join(folder, "key.sh");
    writeFileSync(script, `echo "$1 $HTTPS_PROXY" >>${runs}; echo canary-$1\n`);
    const provider = startProvider((peer, request) =>
      (/ Bearer canary-[abc]\r\n/.test(request.text) ? usual : refusal(401))(peer, request),
    );
    const configOf = (ids: readonly string[]): GatewayConfig => ({
      providers: {
        many: {
          base_url: `http://127.0.0.1:${provider.port}/v1`,
          accounts: ids.map((id) => ({ id, api_key_command: ["sh", script, id] })),
        },
      },
      models: [{ id: "small", routes: [{ provider: "many" }] }],
    });
    const gateway = await startGatewayProcess(configOf(["a", "b"]), {
      launcher: ["env", "HTTPS_PROXY=http://127.0.0.1:1"],
    });
    const keys = await Promise.all(several(10, (at) => gateway.key(`client${at}`, "10")));
    const askAll = async (): Promise<void> => {
      const given = { body: ask(), headers: { connection: "close" } };
      const replies = await Promise.all(
        several(60, (at) => call(gateway, { key: keys[at % 10] ?? "" }, given)),
      );
      expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    };
    const countOf = (id: string) =>
      readFileSync(runs, "utf8")
        .split("\n")
        .filter((one) => one === `${id} `).length;
    try {
      await askAll();
      await gateway.configure(configOf(["a", "b", "c"]));
      const since = gateway.log.length;
      gateway.signal("SIGHUP");
      await gateway.logged("it reloads", ({ msg }) => msg === "config reloaded", since);
      await askAll();
      expect([countOf("a"), countOf("b"), countOf("c")]).toEqual(several(3, () => testedProcesses));
      const used = new Set(provider.requests.map(({ text }) => /canary-./.exec(text)?.[0]));
      expect(used).toEqual(new Set(["canary-a", "canary-b", "canary-c"]));
      expect(JSON.stringify(gateway.log)).not.toContain("canary");
    } finally {
      await gateway.close();
      provider.stop();
      rmSync(folder, { recursive: true });
    }
  },
  startTimeoutMs,
);
