import { beforeAll, describe, expect, spyOn, test } from "bun:test";
import { openLibc } from "../../../src/lib/libc.ts";
import { ConnectionPool } from "../../../src/providers/http/connectionPool.ts";
import { connectionTarget } from "../../../src/providers/http/connectionTarget.ts";
import { Exchange } from "../../../src/providers/http/exchange.ts";
import {
  answeringIndex,
  answerOf,
  awaitable,
  failureOf,
  ok,
  openHttpBefore,
  pieceOf,
  request,
  type TestExchange,
} from "../../support/gateway/httpClient.ts";
import type { RawPeer } from "../../support/provider/rawServer.ts";
import { until } from "../../support/until.ts";

const { serve, clientOf, stopAfterTest } = openHttpBefore();

function poolOf({ port }: { readonly port: number }, idleMsMax?: number): ConnectionPool {
  const target = connectionTarget(new URL(`http://127.0.0.1:${port}`), { connectTimeoutMs: 1000 });
  return new ConnectionPool(target, () => {}, idleMsMax);
}

/** Sends a request over the pool. */
function sendOver(pool: ConnectionPool): TestExchange {
  return awaitable((listener) => {
    const exchange = new Exchange(pool, { count: 0, begin() {}, end() {} }, listener);
    exchange.start("POST / HTTP/1.1\r\n\r\n");
    return exchange;
  });
}

describe("a connection is used again", () => {
  test("by the next request", async () => {
    const client = clientOf(serve(answeringIndex()));
    for (let count = 0; count < 5; count += 1) {
      expect(await answerOf(client.send(request()))).toBe("200 0");
    }
  });

  test("as soon as the response has ended, though its body has not been read", async () => {
    const client = clientOf(serve(answeringIndex()));
    const first = await client.send(request()).response;
    expect(await answerOf(client.send(request()))).toBe("200 0");
    expect(await pieceOf(first)).toBe("0");
    expect(await first.read()).toBeUndefined();
  });

  test("the one that was used last first", async () => {
    const client = clientOf(serve(answeringIndex()));
    const exchanges = [client.send(request()), client.send(request()), client.send(request())];
    const answers: string[] = [];
    for (const exchange of exchanges) {
      await exchange.response;
    }
    for (const exchange of exchanges) {
      answers.push(await answerOf(exchange));
    }
    expect(answers.sort()).toEqual(["200 0", "200 1", "200 2"]);
    const next = await answerOf(client.send(request()));
    expect(await answerOf(client.send(request()))).toBe(next);
  });
});

/** The second way begins once `openLibc` was called, and lasts for all tests behind it. */
const ways = [
  ["after two turns of the loop", () => undefined],
  ["once the system was asked", openLibc],
] as const;

describe.each(ways)("a connection, used %s, is not used again", (_, prepare) => {
  beforeAll(async () => void (await prepare()));

  for (const [name, script] of Object.entries({
    "after connection: close": answeringIndex("Connection: close\r\n"),
    "when bytes follow the end in the same read": answeringIndex("", "HTTP/1.1 200 OK\r\n"),
    "after HTTP/1.0": async (peer: RawPeer) => {
      await peer.request();
      await peer.send(`HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n${peer.index}`);
    },
  })) {
    test(name, async () => {
      const server = serve(script);
      const client = clientOf(server);
      expect(await answerOf(client.send(request()))).toBe("200 0");
      await server.peers[0]?.closed;
      expect(await answerOf(client.send(request()))).toBe("200 1");
    });
  }

  test("when the response came before the request was sent whole", async () => {
    const server = serve(async (peer) => {
      if (peer.index === 0) {
        peer.pause();
        await peer.send("HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge");
      } else {
        await answeringIndex()(peer);
      }
    });
    const client = clientOf(server);
    const body = "x".repeat(20_000_000);
    expect(await answerOf(client.send(request({ body })))).toBe("413 large");
    expect(client.open.count).toBe(0);
    expect(await answerOf(client.send(request()))).toBe("200 1");
    server.peers[0]?.resume();
    await server.peers[0]?.closed;
  });

  for (const ending of ["fin", "reset"] as const) {
    test(`when the provider closed it while it was idle: ${ending}`, async () => {
      const server = serve(answeringIndex());
      const client = clientOf(server);
      expect(await answerOf(client.send(request()))).toBe("200 0");
      server.peers[0]?.[ending]();
      await server.peers[0]?.closed;
      await until("the client has noticed", () => server.openCount === 0);
      expect(await answerOf(client.send(request()))).toBe("200 1");
    });
  }

  test("five minutes after it was opened, in steady use as well", async () => {
    const server = serve(answeringIndex());
    const client = clientOf(server);
    const now = performance.now.bind(performance);
    let aheadMs = 0;
    const clock = spyOn(performance, "now").mockImplementation(() => now() + aheadMs);
    try {
      const answers: string[] = [];
      for (let seconds = 0; seconds <= 320; seconds += 20) {
        aheadMs = seconds * 1000;
        answers.push(await answerOf(client.send(request())));
      }
      expect(answers).toEqual([...Array.from({ length: 16 }, () => "200 0"), "200 1"]);
      await server.peers[0]?.closed;
    } finally {
      clock.mockRestore();
    }
  });

  test("when a byte came while it was idle", async () => {
    const server = serve(answeringIndex());
    const client = clientOf(server);
    expect(await answerOf(client.send(request()))).toBe("200 0");
    await server.peers[0]?.send("H");
    await server.peers[0]?.closed;
    expect(await answerOf(client.send(request()))).toBe("200 1");
  });

  test("for minutes after a byte came while it was idle, and all other idle connections are closed", async () => {
    const server = serve(answeringIndex());
    const told: number[] = [];
    const client = clientOf(server, { onUnsolicitedData: (distrustMs) => told.push(distrustMs) });
    const both = [client.send(request()), client.send(request())];
    await Promise.all(both.map(answerOf));
    await server.peers[0]?.send("H");
    await Promise.all(server.peers.map(({ closed }) => closed));
    for (const index of [2, 3, 4]) {
      expect(await answerOf(client.send(request()))).toBe(`200 ${index}`);
      await server.peers[index]?.closed;
    }
    expect(told).toEqual([5 * 60_000]);
  });

  test("for twice as long each further time, up to an hour", async () => {
    const server = serve(answeringIndex());
    const told: number[] = [];
    const client = clientOf(server, { onUnsolicitedData: (distrustMs) => told.push(distrustMs) });
    const now = performance.now.bind(performance);
    let aheadMs = 0;
    const clock = spyOn(performance, "now").mockImplementation(() => now() + aheadMs);
    try {
      for (let index = 0; index < 6; index += 1) {
        expect(await answerOf(client.send(request()))).toBe(`200 ${index}`);
        await server.peers[index]?.send("H");
        await server.peers[index]?.closed;
        aheadMs += told[index] ?? 0;
      }
    } finally {
      clock.mockRestore();
    }
    expect(told.map((ms) => ms / 60_000)).toEqual([5, 10, 20, 40, 60, 60]);
  });

  test("for minutes, once, when unsolicited bytes arrive on two connections at once", async () => {
    const server = serve(answeringIndex());
    const told: number[] = [];
    const client = clientOf(server, { onUnsolicitedData: (distrustMs) => told.push(distrustMs) });
    const both = () => [client.send(request()), client.send(request())].map(answerOf);
    await Promise.all(both());
    // Both are leased before this process looks at the network again.
    for (const peer of server.peers) void peer.send("H");
    expect((await Promise.all(both())).sort()).toEqual(["200 2", "200 3"]);
    expect(told).toEqual([5 * 60_000]);
  });

  test("when an unsolicited response waits in the system's buffers as the next request is sent", async () => {
    const program = new URL("../../support/provider/unsolicitedBytes.ts", import.meta.url).pathname;
    const child = Bun.spawn([process.execPath, program], { stdout: "pipe" });
    stopAfterTest({ stop: () => child.kill() });
    const { value } = await child.stdout.getReader().read();
    const client = clientOf({ port: Number(Buffer.from(value ?? []).toString()) });
    for (let round = 0; round < 5; round += 1) {
      expect(await answerOf(client.send(request()))).toBe("200 good");
      // This process does not look at the network while it is busy; the bytes arrive meanwhile.
      Bun.sleepSync(40);
    }
  });
});

test("a kept connection is written to at once, if the system knows of nothing that waits", async () => {
  await openLibc();
  const pool = poolOf(serve(answeringIndex()));
  expect(await answerOf(sendOver(pool))).toBe("200 0");
  const second = sendOver(pool);
  expect(second.isSent).toBe(process.platform === "linux");
  expect(await answerOf(second)).toBe("200 0");
  pool.close();
});

describe("a request that a kept connection lost", () => {
  /** Answers the first request of the first connection, and does `next` at its second. */
  const losing =
    (next: (peer: RawPeer) => Promise<void> | void) =>
    async (peer: RawPeer): Promise<void> => {
      if (peer.index > 0) {
        await answeringIndex()(peer);
      }
      await peer.request();
      await peer.send(ok("0"));
      await peer.request();
      await next(peer);
    };

  for (const ending of ["fin", "reset"] as const) {
    test(`is sent once more on a new connection: ${ending}`, async () => {
      const server = serve(losing((peer) => peer[ending]()));
      const client = clientOf(server);
      expect(await answerOf(client.send(request()))).toBe("200 0");
      expect(await answerOf(client.send(request({ body: "x".repeat(100_000) })))).toBe("200 1");
      expect(client.open.count).toBe(0);
    });
  }

  test("is not marked as sent while the new connection is being opened", async () => {
    const server = serve(losing((peer) => peer.fin()));
    const pool = poolOf(server);
    expect(await answerOf(sendOver(pool))).toBe("200 0");
    const wasSent: boolean[] = [];
    const dial = pool.dial.bind(pool);
    pool.dial = (owner) => {
      wasSent.push(second.isSent);
      return dial(owner);
    };
    const second = sendOver(pool);
    expect(await answerOf(second)).toBe("200 1");
    expect([...wasSent, second.isSent]).toEqual([false, true]);
    pool.close();
  });

  test("is not sent again after a single byte of a response", async () => {
    const server = serve(
      losing(async (peer) => {
        await peer.send("H");
        peer.fin();
      }),
    );
    const client = clientOf(server);
    expect(await answerOf(client.send(request()))).toBe("200 0");
    expect(await failureOf(client.send(request()).response)).toBe("closed");
    expect(server.peers).toHaveLength(1);
  });

  test("is not sent a third time", async () => {
    const server = serve(async (peer) => {
      await peer.request();
      if (peer.index === 0) {
        await peer.send(ok("0"));
        await peer.request();
      }
      peer.fin();
    });
    const client = clientOf(server);
    expect(await answerOf(client.send(request()))).toBe("200 0");
    expect(await failureOf(client.send(request()).response)).toBe("closed");
    expect(server.peers).toHaveLength(2);
  });

  test("is not sent again if the connection was new", async () => {
    const server = serve(async (peer) => {
      await peer.request();
      peer.fin();
    });
    expect(await failureOf(clientOf(server).send(request()).response)).toBe("closed");
    expect(server.peers).toHaveLength(1);
  });
});

test("an idle connection that the provider closed is never leased again, however long it has been closed", async () => {
  const server = serve(answeringIndex());
  const pool = poolOf(server);
  expect(await answerOf(sendOver(pool))).toBe("200 0");
  server.peers[0]?.fin();
  await until("the pool has heard of it", () => pool.idleCount === 0);
  expect(await answerOf(sendOver(pool))).toBe("200 1");
  pool.close();
});

test("idle connections are closed when their time is up", async () => {
  const server = serve(answeringIndex());
  const pool = poolOf(server, 40);
  const exchanges = [sendOver(pool), sendOver(pool), sendOver(pool)];
  expect((await Promise.all(exchanges.map(answerOf))).sort()).toEqual(["200 0", "200 1", "200 2"]);
  expect(pool.idleCount).toBe(3);
  await until("all are closed", () => server.openCount === 0);
  expect(pool.idleCount).toBe(0);
});

test("one that became idle after another is closed when its own time is up", async () => {
  const goOn = Promise.withResolvers<void>();
  const server = serve(async (peer) => {
    await peer.request();
    if (peer.index === 1) await goOn.promise;
    await peer.send(ok(String(peer.index)));
  });
  const now = performance.now.bind(performance);
  // As in a process that has run for a day.
  const clock = spyOn(performance, "now").mockImplementation(() => now() + 86_400_000);
  try {
    const pool = poolOf(server, 40);
    const [first, second] = [sendOver(pool), sendOver(pool)];
    expect(await answerOf(first)).toBe("200 0");
    await Bun.sleep(20);
    goOn.resolve();
    expect(await answerOf(second)).toBe("200 1");
    await until("both are closed", () => server.openCount === 0, 5000);
  } finally {
    clock.mockRestore();
  }
});
