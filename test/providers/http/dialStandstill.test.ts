import { expect, test } from "bun:test";
import { createHttpClient } from "../../../src/providers/http/client.ts";
import { answerOf, failureOf, ok, request } from "../../support/gateway/httpClient.ts";
import { startRawServer, testAuthority } from "../../support/provider/rawServer.ts";

const TIMEOUT_MS = 1500;

test("a standstill of the process amid a dial, longer than that may take, is not its time-out", async () => {
  const server = startRawServer(
    async (peer) => {
      await peer.request();
      await peer.send(ok("fine"));
    },
    { certificate: "localhost" },
  );
  const options = { ca: testAuthority(), connectTimeoutMs: TIMEOUT_MS };
  const http = createHttpClient({ baseUrl: `https://localhost:${server.port}`, ...options });
  try {
    const exchange = http.send(request());
    Bun.sleepSync(2 * TIMEOUT_MS);
    expect(await answerOf(exchange)).toBe("200 fine");
  } finally {
    http.close();
    server.stop();
  }
});

test("a dial that gets no answer is over in its time, a standstill on top of it", async () => {
  const silent = startRawServer(() => {});
  const options = { ca: testAuthority(), connectTimeoutMs: TIMEOUT_MS };
  const http = createHttpClient({ baseUrl: `https://localhost:${silent.port}`, ...options });
  try {
    const startedMs = performance.now();
    const { response } = http.send(request());
    Bun.sleepSync(TIMEOUT_MS);
    expect(await failureOf(response)).toBe("timeout");
    expect(performance.now() - startedMs).toBeLessThan(20_000);
  } finally {
    http.close();
    silent.stop();
  }
});
