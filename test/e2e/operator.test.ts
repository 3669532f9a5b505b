import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { usual } from "../support/provider/chatAnswers.ts";
import { call, ask } from "../support/gateway/chatCalls.ts";
import { openCliFolder } from "../support/binary/cli.ts";
import { binaryPath } from "../support/binary/binary.ts";
import { configText } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { refusal, startProvider } from "../support/provider/scriptedProvider.ts";

/** Lines of a table, with one space between columns. */
const linesOf = (text: string): string[] =>
  text.split("\n").map((line) => line.trim().replace(/ +/g, " "));

describe("tollgate check --live", () => {
  test(
    "asks the demo provider, and explains what is wrong with a broken one",
    async () => {
      const binary = await binaryPath();
      const demo = Bun.spawn(
        [binary, "demo", "--provider-only", "--listen", "127.0.0.1:0", "--json"],
        {
          env: { PATH: process.env["PATH"] ?? "" },
          stdio: ["ignore", "pipe", "inherit"],
        },
      );
      const broken = startProvider(refusal(401, "no such key: sk-canary-0123456789"));
      const { value } = await demo.stdout.getReader().read();
      const { base_url } = JSON.parse(Buffer.from(value ?? []).toString()) as { base_url: string };
      const one = { id: "demo-large", routes: [{ provider: "demo", responses: false }] };
      const two = {
        id: "both",
        routes: [
          { provider: "demo", responses: false },
          { provider: "broken", responses: false },
        ],
      };
      const providers = {
        demo: base_url,
        broken: { base_url: `http://127.0.0.1:${broken.port}/v1`, api_key: "sk-canary-0123456789" },
      };
      const good = await openCliFolder(configText({ providers, models: [one] }), [binary]);
      const bad = await openCliFolder(configText({ providers, models: [one, two] }), [binary]);
      try {
        const found = await good.run("check", "--live");
        expect(found.status).toBe(0);
        expect(linesOf(found.stdout).slice(3)).toEqual([
          expect.stringMatching(/^demo-large demo demo-large chat \d+ ok$/),
        ]);
        const { status, stdout, stderr } = await bad.run("check", "--live", "--json");
        expect(status).toBe(1);
        expect(stderr).toBe("error: 1 of 3 routes failed: see above");
        expect(JSON.parse(stdout)).toMatchObject({
          ok: false,
          problems: [],
          live: [
            { model: "demo-large", api: "chat", ok: true },
            { model: "both", provider: "demo", api: "chat", ok: true },
            { model: "both", provider: "broken", api: "chat", ok: false },
          ],
        });
        expect(stdout).toContain("the provider refuses the key (401): check api_key");
        expect(stdout).not.toContain("canary");
      } finally {
        demo.kill("SIGTERM");
        await demo.exited;
        broken.stop();
        await good.remove();
        await bad.remove();
      }
    },
    startTimeoutMs,
  );
});

describe("tollgate requests show", () => {
  const failing = startProvider(refusal(503));
  const answering = startProvider(usual);
  let gateway: GatewayProcess;

  beforeAll(async () => {
    gateway = await startGatewayProcess({
      providers: {
        failing: `http://127.0.0.1:${failing.port}/v1`,
        answering: `http://127.0.0.1:${answering.port}/v1`,
      },
      models: [{ id: "small", routes: [{ provider: "failing" }, { provider: "answering" }] }],
    });
  }, startTimeoutMs);
  afterAll(async () => {
    await gateway.close();
    failing.stop();
    answering.stop();
  });

  test.each([false, true])("shows each attempt of a failover (stream: %j)", async (stream) => {
    const key = await gateway.key(`account-${stream}`, "1");
    const { id } = await call(gateway, { key }, { body: ask({ stream }) });
    expect(await gateway.request(id)).toMatchObject({
      status: "done",
      provider: "answering",
      attempt_count: 2,
      attempts: [
        {
          n: 1,
          provider: "failing",
          outcome: "status 503",
          status: 503,
          duration_ms: expect.any(Number),
        },
        {
          n: 2,
          provider: "answering",
          outcome: "ok",
          status: 200,
          duration_ms: expect.any(Number),
        },
      ],
    });
    const { stdout } = await gateway.cli.run("requests", "show", id);
    expect(linesOf(stdout).slice(-3)).toEqual([
      "attempt provider outcome status ms",
      expect.stringMatching(/^1 failing status 503 503 \d+$/),
      expect.stringMatching(/^2 answering ok 200 \d+$/),
    ]);
  });
});
