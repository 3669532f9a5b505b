import { afterAll, beforeAll, expect, test } from "bun:test";
import { LARGE_BODY_BYTES } from "../../src/gateway/largeBodies/largeBodies.ts";
import { binaryPath } from "../support/binary/binary.ts";
import { startGatewayProcess, startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { call, chat } from "../support/gateway/chatCalls.ts";
import { usualMessage } from "../support/provider/anthropicAnswers.ts";
import { usual } from "../support/provider/chatAnswers.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";

const local = startProvider(usual);
const claude = startProvider(usualMessage);

beforeAll(async () => {
  await binaryPath();
}, startTimeoutMs);
afterAll(() => {
  local.stop();
  claude.stop();
});

test(
  "the executable has the Worker that checks and translates large bodies",
  async () => {
    const gateway = await startGatewayProcess({
      providers: {
        local: { base_url: `http://127.0.0.1:${local.port}/v1` },
        claude: { base_url: `http://127.0.0.1:${claude.port}/v1`, kind: "anthropic" },
      },
      models: [
        { id: "small", routes: [{ provider: "local", responses: false }] },
        { id: "claude", routes: [{ provider: "claude", responses: false }] },
      ],
      sections: { server: { listen: "127.0.0.1:0" } },
    });
    try {
      const key = { key: await gateway.key("alice", "1000") };
      const text = "word ".repeat(LARGE_BODY_BYTES / 4);
      const messages = [{ role: "user", content: text }];
      expect((await chat(gateway, key, { messages })).status).toBe(200);
      expect(local.requests[0]?.json["messages"]).toEqual(messages);
      expect((await chat(gateway, key, { messages, model: "claude" })).status).toBe(200);
      expect(claude.requests[0]?.json["messages"]).toEqual([
        { role: "user", content: [{ type: "text", text }] },
      ]);
      const body = JSON.stringify({ model: "small", max_tokens: 9, messages });
      const message = await call(gateway, key, { path: "/v1/messages", body });
      expect([message.status, local.requests[1]?.json["messages"]]).toEqual([200, messages]);
      const refused = await chat(gateway, key, { messages, model: 1 });
      expect(refused).toMatchObject({
        status: 400,
        body: { error: { message: "model must be a string" } },
      });
      await gateway.expectAuditPasses();
    } finally {
      await gateway.close();
    }
  },
  startTimeoutMs,
);
