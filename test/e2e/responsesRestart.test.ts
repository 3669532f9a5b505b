import { expect, test } from "bun:test";
import { openBinaryBefore } from "../support/binary/gatewayBefore.ts";
import type { GatewayProcess } from "../support/binary/gatewayProcess.ts";
import { responds } from "../support/provider/responsesAnswers.ts";
import { respond } from "../support/gateway/responsesCalls.ts";
import { refusal, startProvider } from "../support/provider/scriptedProvider.ts";

const first = startProvider();
const second = startProvider();
const setup = openBinaryBefore(
  {
    providers: {
      first: `http://127.0.0.1:${first.port}/v1`,
      second: `http://127.0.0.1:${second.port}/v1`,
    },
    models: [{ id: "small", routes: [{ provider: "first" }, { provider: "second" }] }],
  },
  first,
  second,
);

test.each([
  ["kill -9", (running: GatewayProcess) => running.kill()],
  [
    "a stop",
    async (running: GatewayProcess) => {
      running.signal("SIGTERM");
      await running.ended;
    },
  ],
] as const)(
  "previous_response_id goes to the provider that made it after %s, and no other account may name it",
  async (name, end) => {
    const otherAccount = await setup.gateway.key("mallory", "100");
    const ids = [`resp_json_${name}`, `resp_stream_${name}`];
    first.answer = refusal(500);
    for (const [at, id] of ids.entries()) {
      second.answer = responds(id);
      expect((await respond(setup.gateway, setup, { stream: at === 1 })).status).toBe(200);
    }

    await end(setup.gateway);
    await setup.gateway.start();

    first.forget();
    second.forget();
    second.answer = responds("resp_next");
    for (const id of ids) {
      const next = { previous_response_id: id };
      expect((await respond(setup.gateway, setup, next)).status).toBe(200);
      expect(await respond(setup.gateway, { key: otherAccount }, next)).toMatchObject({
        status: 404,
        body: { error: { message: "response not found" } },
      });
    }
    expect([first.requests.length, second.requests.length]).toEqual([0, ids.length]);
  },
);
