import { describe, expect, test } from "bun:test";
import {
  answeringIndex,
  answerOf,
  ok,
  openHttpBefore,
  rejectionOf,
  request,
  sending,
} from "../../support/gateway/httpClient.ts";
import type { RawPeer } from "../../support/provider/rawServer.ts";
import { until } from "../../support/until.ts";

const { serve, clientOf } = openHttpBefore();

describe("abort", () => {
  const reason = new Error("the test has had enough");

  test("while waiting for the response", async () => {
    const arrived = Promise.withResolvers<RawPeer>();
    const server = serve(async (peer) => {
      await peer.request();
      arrived.resolve(peer);
    });
    const client = clientOf(server);
    const exchange = client.send(request());
    const peer = await arrived.promise;
    exchange.abort(reason);
    exchange.abort(new Error("another reason"));
    expect(await rejectionOf(exchange.response)).toBe(reason);
    await peer.closed;
    expect(client.open.count).toBe(0);
  });

  test("by the taker of a piece, in the network read that also ends the body", async () => {
    const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const goOn = Promise.withResolvers<void>();
    const server = serve(async (peer) => {
      if (peer.index > 0) return answeringIndex()(peer);
      await peer.request();
      await peer.send(`${chunked}3\r\none\r\n`);
      await goOn.promise;
      await peer.send("3\r\ntwo\r\n0\r\n\r\n");
    });
    const client = clientOf(server);
    const exchange = client.send(request());
    const response = await exchange.response;
    await response.read();
    response.offerTo(() => {
      exchange.abort(reason);
      return true;
    });
    const reading = response.read();
    goOn.resolve();
    expect(await rejectionOf(reading)).toBe(reason);
    expect(client.open.count).toBe(0);
    expect(await answerOf(client.send(request()))).toBe("200 1");
  });

  test("in the middle of the body", async () => {
    const server = serve(sending("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"));
    const client = clientOf(server);
    const exchange = client.send(request());
    const response = await exchange.response;
    await response.read();
    const reading = response.read();
    exchange.abort(reason);
    expect(await rejectionOf(reading)).toBe(reason);
    expect(await rejectionOf(response.read())).toBe(reason);
    await server.peers[0]?.closed;
    expect(client.open.count).toBe(0);
  });

  test("drops data that was not read", async () => {
    const server = serve(async (peer) => {
      await peer.request();
      await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n");
      await peer.send("x".repeat(20_000));
    });
    const exchange = clientOf(server).send(request());
    const response = await exchange.response;
    // At most 16 KiB of them.
    await response.read();
    exchange.abort(reason);
    expect(await rejectionOf(response.read())).toBe(reason);
  });

  test("right after sending, on a new connection and on a kept one", async () => {
    const server = serve(answeringIndex());
    const client = clientOf(server);
    const first = client.send(request());
    first.abort(reason);
    expect(await rejectionOf(first.response)).toBe(reason);
    await answerOf(client.send(request()));
    const second = client.send(request());
    second.abort(reason);
    expect(await rejectionOf(second.response)).toBe(reason);
    await until("no connection is left", () => server.openCount === 0);
    expect(client.open.count).toBe(0);
  });

  test("does nothing after the end: the connection is kept", async () => {
    const server = serve(answeringIndex());
    const client = clientOf(server);
    const exchange = client.send(request());
    expect(await answerOf(exchange)).toBe("200 0");
    exchange.abort(reason);
    expect(await answerOf(client.send(request()))).toBe("200 0");
  });
});

describe("close", () => {
  test("closes idle connections, lets exchanges in progress end, and keeps no connection after that", async () => {
    const mayAnswer = Promise.withResolvers<void>();
    const server = serve(async (peer) => {
      await peer.request();
      if (peer.index === 1) {
        await mayAnswer.promise;
      }
      await peer.send(ok(String(peer.index)));
    });
    const client = clientOf(server);
    const [first, second] = [client.send(request()), client.send(request())];
    expect(await answerOf(first)).toBe("200 0");
    client.close();
    await server.peers[0]?.closed;
    expect(await answerOf(client.send(request()))).toBe("200 2");
    await server.peers[2]?.closed;
    mayAnswer.resolve();
    expect(await answerOf(second)).toBe("200 1");
    await server.peers[1]?.closed;
    expect(client.open.count).toBe(0);
  });

  test("keeps no process alive, and the environment's proxy is not used", async () => {
    const server = serve(answeringIndex());
    const program = `
      import { createHttpClient } from "./src/providers/http/client.ts";
      const client = createHttpClient({ baseUrl: "http://127.0.0.1:${server.port}", connectTimeoutMs: 60000 });
      const send = (responded) =>
        client.send({ path: "/", headers: {}, body: "" }, { responded, exceeded() {}, ended() {} });
      send(() => {}).abort(new Error("not wanted"));
      const { promise, resolve } = Promise.withResolvers();
      const exchange = send(resolve);
      await promise;
      console.log(exchange.status);
      client.close();`;
    const nowhere = "http://127.0.0.1:1";
    const child = Bun.spawn([process.execPath, "-e", program], {
      cwd: new URL("../../..", import.meta.url).pathname,
      env: { ...process.env, HTTP_PROXY: nowhere, http_proxy: nowhere, ALL_PROXY: nowhere },
      stdout: "pipe",
    });
    expect(await child.stdout.text()).toBe("200\n");
    expect(await child.exited).toBe(0);
  });
});
