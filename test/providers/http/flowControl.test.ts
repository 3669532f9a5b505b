import { describe, expect, test } from "bun:test";
import { IncomingBody } from "../../../src/providers/http/incomingBody.ts";
import {
  answerOf,
  ok,
  openHttpBefore,
  request,
  sending,
  type TestClient,
} from "../../support/gateway/httpClient.ts";
import { testAuthority, type RawPeer, type RawServer } from "../../support/provider/rawServer.ts";
import { until } from "../../support/until.ts";
import { sample } from "../../support/sample.ts";

const MEGABYTE = 1_048_576;
const BODY_BYTES = 120 * MEGABYTE;

const { serve, clientOf } = openHttpBefore();

/** A server and its client, by either scheme. */
function connect(
  scheme: "http" | "https",
  script: (peer: RawPeer) => Promise<void>,
): { server: RawServer; client: TestClient } {
  const secure = scheme === "https";
  const server = serve(script, secure ? { certificate: "localhost" } : {});
  const ca = secure ? testAuthority() : undefined;
  return { server, client: clientOf(`${scheme}://localhost:${server.port}`, { ca }) };
}

/** Memory in use that is not garbage waiting to be collected. */
function retainedBytes(): number {
  Bun.gc(true);
  return process.memoryUsage.rss();
}

/** The value of a counter once it has stood still for 100 ms. */
async function atRest(counter: () => number): Promise<number> {
  let before = -1;
  while (before !== counter()) {
    before = counter();
    await Bun.sleep(100);
  }
  return before;
}

test("one network read is read in small parts, and the event loop runs between them", async () => {
  const body = "a".repeat(60_000);
  const { client } = connect("http", sending(ok(body)));
  const response = await client.send(request()).response;
  // By then all of it has arrived.
  await until("the exchange is over", () => client.open.count === 0);
  let turns = 0;
  const turn = (): void => {
    turns += 1;
    immediate = setImmediate(turn);
  };
  let immediate = setImmediate(turn);
  const lengths: number[] = [];
  for (let piece = await response.read(); piece !== undefined; piece = await response.read()) {
    lengths.push(piece.length);
  }
  clearImmediate(immediate);
  expect(Math.max(...lengths)).toBeLessThanOrEqual(16_384);
  expect(lengths.reduce((sum, length) => sum + length, 0)).toBe(body.length);
  expect(turns).toBeGreaterThanOrEqual(lengths.length - 2);
});

for (const scheme of sample(["http", "https"] as const, 1)) {
  describe(scheme, () => {
    test("a body of 120 MB and a slow reader: the provider waits, memory stays flat", async () => {
      let sentBytes = 0;
      const { client } = connect(scheme, async (peer) => {
        await peer.request();
        await peer.send(`HTTP/1.1 200 OK\r\nContent-Length: ${BODY_BYTES}\r\n\r\n`);
        const block = Buffer.alloc(MEGABYTE, "a");
        while (sentBytes < BODY_BYTES) {
          await peer.send(block);
          sentBytes += block.length;
        }
      });
      const response = await client.send(request()).response;
      // What is under way by now fills the system's buffers and ours, and nothing more.
      expect(await atRest(() => sentBytes)).toBeLessThan(24 * MEGABYTE);
      const retainedBeforeBytes = retainedBytes();
      let nextCheckBytes = 0;
      let readBytes = 0;
      for (let piece = await response.read(); piece !== undefined; piece = await response.read()) {
        readBytes += piece.length;
        if (readBytes < 8 * MEGABYTE) {
          await Bun.sleep(1);
        }
        expect(sentBytes - readBytes).toBeLessThan(24 * MEGABYTE);
        if (readBytes >= nextCheckBytes) {
          nextCheckBytes += 20 * MEGABYTE;
          expect(retainedBytes() - retainedBeforeBytes).toBeLessThan(32 * MEGABYTE);
        }
      }
      expect(readBytes).toBe(BODY_BYTES);
      expect(client.open.count).toBe(0);
    }, 60_000);

    test.each([
      ["in text", [20_000_000]],
      ["in pieces", [5, 12_000_000, 1, 0, 16_384, 7_983_609, 1]],
    ])(
      "a request of 20 MB to a provider who reads late arrives whole: %s",
      async (_, lengths) => {
        const whole = "0123456789abcdef".repeat(1_250_000);
        let at = 0;
        const pieces = lengths.map((length) => Buffer.from(whole.slice(at, (at += length))));
        const body = lengths.length === 1 ? whole : pieces;
        let received = Bun.SHA256.hash("", "hex");
        const mayRead = Promise.withResolvers<void>();
        const { server, client } = connect(scheme, async (peer) => {
          peer.pause();
          await mayRead.promise;
          const hash = new Bun.CryptoHasher("sha256");
          let missing = whole.length;
          const done = Promise.withResolvers<void>();
          let head = "";
          peer.relayTo((bytes) => {
            let payload = bytes;
            if (!head.includes("\r\n\r\n")) {
              head += bytes.toString("latin1");
              payload = Buffer.from(head.split("\r\n\r\n", 2)[1] ?? "", "latin1");
            }
            hash.update(payload);
            missing -= payload.length;
            if (missing <= 0) {
              done.resolve();
            }
          });
          peer.resume();
          await done.promise;
          received = hash.digest("hex");
          await peer.send(ok("got it"));
        });
        const exchange = client.send(request({ body }));
        await atRest(() => server.openCount);
        mayRead.resolve();
        expect(await answerOf(exchange)).toBe("200 got it");
        expect(received).toBe(Bun.SHA256.hash(whole, "hex"));
        // Everything was sent and answered, so the connection is good for another request.
        expect(server.openCount).toBe(1);
        expect(client.open.count).toBe(0);
      },
      20_000,
    );
  });
}

describe("a body whose reader waits", () => {
  const spanOf = (length: number) => ({ bytes: Buffer.alloc(length), start: 0, end: length });

  test("is offered to its taker only in pieces of at most one read", async () => {
    const body = new IncomingBody();
    const taken: number[] = [];
    body.offerTo(({ start, end }) => taken.push(end - start) > 0);
    const reading = body.read();
    body.push(spanOf(16_384));
    body.push(spanOf(16_385));
    expect((await reading)?.length).toBe(16_384);
    expect(taken).toEqual([16_384]);
  });

  test("asks its connection for no more after its end, because another exchange may use it", async () => {
    let resumed = 0;
    const body = new IncomingBody();
    body.open({ resume: () => (resumed += 1) });
    body.push(spanOf(10));
    body.end();
    expect((await body.read())?.length).toBe(10);
    expect(await body.read()).toBeUndefined();
    expect(resumed).toBe(0);
  });
});
