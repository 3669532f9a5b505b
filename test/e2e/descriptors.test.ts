import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { ask, chat, type Reply } from "../support/gateway/chatCalls.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { chatBytes, connectRaw, type RawClient } from "../support/gateway/rawClient.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { helloEvent, roleEvent, usual } from "../support/provider/chatAnswers.ts";
import { piece, startProvider, streamHead } from "../support/provider/scriptedProvider.ts";
import { testedProcesses } from "../support/testedEngines.ts";
import { until } from "../support/until.ts";

/** Files that each process of the gateway may have open. */
const FILES = 160;
const FILES_OF_ALL = FILES * testedProcesses;
const testTimeoutMs = 60_000;

const provider = startProvider(usual);
let gateway: GatewayProcess;
let key: { key: string };
const port = () => Number(new URL(gateway.url).port);

beforeAll(async () => {
  const launcher = ["sh", "-c", `ulimit -n ${FILES}; exec "$@"`, "sh"];
  gateway = await startGatewayProcess(oneModel(`http://127.0.0.1:${provider.port}/v1`), {
    launcher,
  });
  key = { key: await gateway.key("alice", "1000") };
}, startTimeoutMs);

afterAll(async () => {
  try {
    await gateway.close();
  } finally {
    provider.stop();
  }
});

const connect = (count: number): Promise<readonly RawClient[]> =>
  Promise.all(Array.from({ length: count }, () => connectRaw(port())));

describe.skipIf(process.platform !== "linux")("with few file descriptors", () => {
  test.each([
    ["that never speak", ""],
    ["that keep an answered request", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"],
    ["that send half of a head", "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"],
  ])(
    "idle connections %s are closed, and a request of another client is answered",
    async (_, bytes) => {
      gateway.forgetLog();
      const idle = await connect(3 * FILES_OF_ALL);
      for (const client of idle) client.send(bytes);
      const closed = () => idle.filter(({ isClosed }) => isClosed).length;
      // Of each process a quarter stays free for its providers.
      const isFree = (pid: number) => readdirSync(`/proc/${pid}/fd`).length <= FILES * 0.75;
      await until(
        "three quarters are closed, and each process has room",
        () => closed() >= FILES_OF_ALL * 2.25 && gateway.pids.every(isFree),
      );
      const replies: Reply[] = [];
      for (let count = 0; count < 5; count += 1) replies.push(await chat(gateway, key));
      expect(replies.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
      for (const client of idle) client.reset();
    },
    testTimeoutMs,
  );

  test(
    "requests in flight stay, those without a descriptor for their provider fail by the gateway's fault, and the route stays in use",
    async () => {
      provider.answer = async (peer) => {
        await peer.send(Buffer.concat([Buffer.from(streamHead), piece(roleEvent + helloEvent)]));
        await peer.closed;
      };
      gateway.forgetLog();
      const body = JSON.stringify(ask({ stream: true }));
      const clients = await connect((FILES - 40) * testedProcesses);
      for (const client of clients) client.send(chatBytes(key.key, body));
      await gateway.logged("a failure", ({ event }) => event === "descriptors_exhausted");
      await until("a refusal", () =>
        clients.some(({ text }) => text.includes("service temporarily unavailable")),
      );
      const open = () => clients.filter(({ text }) => text.includes("Hello"));
      await until("streams are open", () => open().length > 10);
      expect(open().filter(({ isClosed }) => isClosed)).toEqual([]);
      for (const client of clients) client.reset();
      provider.answer = usual;
      let last: Reply | undefined;
      // The connections of the clients end a moment later.
      for (let count = 0; count < 20 && last?.status !== 200; count += 1)
        last = await chat(gateway, key).catch(() => undefined);
      expect(last?.status).toBe(200);
    },
    testTimeoutMs,
  );
});
