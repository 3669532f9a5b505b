import { afterAll, beforeAll, beforeEach, expect, spyOn, test } from "bun:test";
import { createServer, type TollgateApp } from "../../../src/http/server.ts";
import { helloEvent, usual } from "../../support/provider/chatAnswers.ts";
import { ask, call } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw } from "../../support/gateway/rawClient.ts";
import {
  piece,
  raw,
  refusal,
  streamEnd,
  streamHead,
  type ProviderAnswer,
} from "../../support/provider/scriptedProvider.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore();

/** The time-outs of a connection in seconds: none while the gateway's own time-outs count. */
const OWN_TIMEOUTS = 0;
const IDLE_SECONDS = 60;

/** A second listener of the gateway. Its real time-out is a minute, so the test notes the time-outs that are set. */
let server: TollgateApp;
const timeouts: number[] = [];

beforeAll(() => {
  server = createServer(at.gateway.app).listen({ hostname: "127.0.0.1", port: 0 });
  if (!server.server) throw new Error("the server did not start");
  spyOn(server.server, "timeout").mockImplementation((_, seconds) => {
    timeouts.push(seconds);
  });
});
beforeEach(() => {
  timeouts.length = 0;
});
afterAll(async () => {
  await server.stop(true);
});

const chat = JSON.stringify(ask());
const stream = JSON.stringify(ask({ stream: true }));
const usage = "/v1/usage";

test.each<[what: string, path: string, body: string | undefined, ProviderAnswer, number, number[]]>(
  [
    ["an answer in JSON", "/v1/chat/completions", chat, usual, 200, [OWN_TIMEOUTS, IDLE_SECONDS]],
    ["a stream", "/v1/chat/completions", stream, usual, 200, [OWN_TIMEOUTS, IDLE_SECONDS]],
    [
      "a stream that fails",
      "/v1/chat/completions",
      stream,
      raw(streamHead, piece(helloEvent), streamEnd),
      200,
      [OWN_TIMEOUTS, IDLE_SECONDS],
    ],
    [
      "a failure of the provider",
      "/v1/chat/completions",
      chat,
      refusal(500),
      502,
      [OWN_TIMEOUTS, IDLE_SECONDS],
    ],
    [
      "a body that is not JSON",
      "/v1/chat/completions",
      "nonsense",
      usual,
      400,
      [OWN_TIMEOUTS, IDLE_SECONDS],
    ],
    ["a report of usage", usage, undefined, usual, 200, [OWN_TIMEOUTS, IDLE_SECONDS]],
    ["a query that Elysia refuses", `${usage}?by=week`, undefined, usual, 400, []],
    ["a query with an unknown parameter", `${usage}?x=1`, undefined, usual, 400, []],
  ],
)(
  "after %s the connection has its usual time-out and the key's slot is free",
  async (_, path, body, answer, status, expected) => {
    at.provider.answer = answer;
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const url = `http://127.0.0.1:${server.server?.port}`;
    const auditor = at.gateway.auditor;
    const method = body === undefined ? "GET" : "POST";
    for (let count = 0; count < 2; count += 1) {
      timeouts.length = 0;
      const reply = await call({ url, auditor }, key, { path, method, body });
      expect(reply.status).toBe(status);
      await until("the request has ended", () => at.gateway.app.requests.open === 0);
      expect(timeouts).toEqual(expected);
    }
  },
);

test("requests on one connection find the key's one slot free", async () => {
  at.provider.answer = usual;
  const { key } = await at.gateway.key({ concurrentRequests: 1 });
  const client = await connectRaw(at.gateway.port);
  for (let count = 0; count < 5; count += 1) {
    client.send(chatBytes(key, chat));
    expect((await client.response()).status).toBe(200);
  }
  client.fin();
});
