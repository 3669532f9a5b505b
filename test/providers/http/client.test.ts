import { describe, expect, test } from "bun:test";
import {
  answeringIndex,
  answerOf,
  failureOf,
  ok,
  openHttpBefore,
  pieceOf,
  rejectionOf,
  request,
  sending,
  textOf,
} from "../../support/gateway/httpClient.ts";
import { until } from "../../support/until.ts";

const { serve, clientOf } = openHttpBefore();

/** A server that answers one request, and the text of that request. */
function serveFine() {
  let seen = "";
  const server = serve(
    sending((text) => {
      seen = text;
      return ok("fine");
    }),
  );
  return { server, seen: () => seen };
}

function bodyOf(seen: string): string {
  return seen.slice(seen.indexOf("\r\n\r\n") + 4);
}

describe("the request", () => {
  test("is written as given, with the client's own headers", async () => {
    const { server, seen } = serveFine();
    const client = clientOf(server, { headers: { "x-fixed": "1", "x-other": "" } });
    const headers = { "Content-Type": "application/json", authorization: "Bearer k" };
    expect(await answerOf(client.send({ path: "/chat", headers, body: '{"a":1}' }))).toBe(
      "200 fine",
    );
    expect(seen().split("\r\n")).toEqual([
      "POST /v1/chat HTTP/1.1",
      `Host: 127.0.0.1:${server.port}`,
      "x-fixed: 1",
      "x-other: ",
      "Content-Type: application/json",
      "authorization: Bearer k",
      "Content-Length: 7",
      "",
      '{"a":1}',
    ]);
  });

  test.each([
    ["?api-version=1", "/chat", "/deployment/chat?api-version=1"],
    ["", "/chat:stream?alt=sse", "/deployment/chat:stream?alt=sse"],
    ["?api-version=1", "/chat?alt=sse", "/deployment/chat?alt=sse&api-version=1"],
  ])(
    "keeps the query of the base URL and its own, and one slash between the paths: %s, %s",
    async (query, path, target) => {
      const server = serve(sending((seen) => ok(seen.split("\r\n", 1)[0] ?? "")));
      const baseUrl = `http://127.0.0.1:${server.port}/deployment/${query}`;
      expect(await answerOf(clientOf(server, { baseUrl }).send(request({ path })))).toBe(
        `200 POST ${target} HTTP/1.1`,
      );
    },
  );

  for (const body of ["жüß€🙂", "lone \ud800 surrogate", "", "ж".repeat(100_000)]) {
    test(`counts the body in bytes of UTF-8: ${body.slice(0, 20)}`, async () => {
      const { server, seen } = serveFine();
      await answerOf(clientOf(server).send(request({ body })));
      expect(bodyOf(seen())).toBe(body.toWellFormed());
      expect(server.peers[0]?.unread.length).toBe(0);
    });
  }

  test("accepts a body in pieces, and counts them together", async () => {
    const { server, seen } = serveFine();
    const body = ["ж", "", "ü".repeat(30_000), "€"].map((text) => Buffer.from(text));
    await answerOf(clientOf(server).send(request({ body })));
    expect(bodyOf(seen())).toBe(Buffer.concat(body).toString());
    expect(server.peers[0]?.unread.length).toBe(0);
  });

  for (const [name, parts] of Object.entries({
    "a line break in a header value": { headers: { "x-a": "b\r\nx-c: d" } },
    "a line feed in a header value": { headers: { "x-a": "b\n" } },
    "a NUL in a header value": { headers: { "x-a": "b\u0000" } },
    "a header value beyond ASCII": { headers: { "x-a": "ж" } },
    "a header name with a space": { headers: { "x a": "b" } },
    "a header name with a line break": { headers: { "x\r\ny": "b" } },
    "its own Host": { headers: { HOST: "example.com" } },
    "its own Content-Length": { headers: { "Content-Length": "0" } },
    "its own Transfer-Encoding": { headers: { "transfer-encoding": "chunked" } },
    "a space in the path": { path: "/a b" },
    "a line break in the path": { path: "/a\r\n" },
    "a path without a slash": { path: "a" },
  })) {
    test(`is refused before anything is dialled: ${name}`, async () => {
      const server = serve(answeringIndex());
      const client = clientOf(server);
      expect(await failureOf(client.send(request(parts)).response)).toBe("request");
      expect(client.open.count).toBe(0);
      expect(await answerOf(client.send(request()))).toBe("200 0");
      if (!("headers" in parts)) return;
      const ofAll = clientOf(server, parts);
      expect(await failureOf(ofAll.send(request()).response)).toBe("request");
      expect(ofAll.open.count).toBe(0);
    });
  }
});

describe("the response", () => {
  test("skips 1xx, and offers headers by their lower-case names", async () => {
    const server = serve(
      sending(`HTTP/1.1 100 Continue\r\n\r\n${ok("fine", "X-Thing: a\r\nX-THING: b\r\n")}`),
    );
    const response = await clientOf(server).send(request()).response;
    expect(response.status).toBe(200);
    expect(response.header("x-thing")).toBe("a, b");
    expect(response.header("x-other")).toBeUndefined();
    expect(await textOf(response)).toBe("fine");
    expect(await response.read()).toBeUndefined();
  });

  test("is not followed when it is a redirect", async () => {
    const server = serve(
      sending("HTTP/1.1 307 Elsewhere\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"),
    );
    expect(await answerOf(clientOf(server).send(request()))).toBe("307 ");
    expect(server.peers).toHaveLength(1);
  });

  test("is never decompressed", async () => {
    const compressed = Buffer.from(Bun.gzipSync("a".repeat(1000)));
    const server = serve(async (peer) => {
      await peer.request();
      const head = `HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: ${compressed.length}\r\n\r\n`;
      await peer.send(Buffer.concat([Buffer.from(head), compressed]));
    });
    const response = await clientOf(server).send(request()).response;
    expect(await response.read()).toEqual(compressed);
  });

  test("gives one network read as one piece, however many chunks it has", async () => {
    const server = serve(sending("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"));
    const exchange = clientOf(server).send(request());
    const response = await exchange.response;
    const reading = response.read();
    await server.peers[0]?.send("3\r\nabc\r\n3\r\ndef\r\n");
    expect(Buffer.from((await reading) ?? []).toString()).toBe("abcdef");
    exchange.abort(new Error("enough"));
  });

  test("keeps the pieces that were read earlier intact", async () => {
    const server = serve(sending("HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n"));
    const response = await clientOf(server).send(request()).response;
    const pieces: Uint8Array[] = [];
    for (const letter of "abc") {
      await server.peers[0]?.send(letter.repeat(100));
      pieces.push((await response.read()) ?? new Uint8Array(0));
    }
    expect(Buffer.concat(pieces).toString()).toBe(
      "a".repeat(100) + "b".repeat(100) + "c".repeat(100),
    );
  });

  const BEGUN = {
    "a length": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
    chunks: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "chunks without their last line":
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
  };
  for (const [name, bytes] of Object.entries(BEGUN)) {
    for (const ending of ["fin", "reset"] as const) {
      test(`cut short by a ${ending}, with ${name}: what came, then an error`, async () => {
        const server = serve(sending(bytes));
        const client = clientOf(server);
        const response = await client.send(request()).response;
        expect(await pieceOf(response)).toBe("hello");
        server.peers[0]?.[ending]();
        expect(await failureOf(response.read())).toBe("closed");
        expect(client.open.count).toBe(0);
      });
    }
  }

  test("without length or chunks ends with the connection, if that was closed in order", async () => {
    const server = serve(async (peer) => {
      await peer.request();
      await peer.send("HTTP/1.1 200 OK\r\n\r\nhello");
      peer.fin();
    });
    expect(await answerOf(clientOf(server).send(request()))).toBe("200 hello");
  });

  test("without length or chunks is an error when the connection is reset", async () => {
    const server = serve(sending("HTTP/1.1 200 OK\r\n\r\nhello"));
    const response = await clientOf(server).send(request()).response;
    expect(await pieceOf(response)).toBe("hello");
    server.peers[0]?.reset();
    expect(await failureOf(response.read())).toBe("closed");
  });

  test("that is not HTTP is a protocol error, and the connection is gone", async () => {
    const server = serve(sending("hello, I am no HTTP server"));
    const client = clientOf(server);
    expect(await failureOf(client.send(request()).response)).toBe("protocol");
    await server.peers[0]?.closed;
    expect(client.open.count).toBe(0);
  });

  test("whose body breaks its framing gives what came, then a protocol error", async () => {
    const server = serve(
      sending("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n"),
    );
    const response = await clientOf(server).send(request()).response;
    expect(await pieceOf(response)).toBe("hello");
    expect(await failureOf(response.read())).toBe("protocol");
  });
});

test("300 hung exchanges do not delay another; 1,000 at once are served", async () => {
  const server = serve(async (peer) => {
    for (;;) {
      const seen = await peer.request();
      if (!seen.startsWith("POST /v1/hang ")) {
        await peer.send(ok(bodyOf(seen)));
      }
    }
  });
  const client = clientOf(server, { connectTimeoutMs: 4000 });
  const hung = Array.from({ length: 300 }, () => client.send(request({ path: "/hang" })));
  await until("all have arrived", () => server.openCount === 300);
  expect(await answerOf(client.send(request({ body: "still here" })))).toBe("200 still here");

  const bodies = Array.from({ length: 1000 }, (_, index) => `body ${index}`);
  const answers = await Promise.all(bodies.map((body) => answerOf(client.send(request({ body })))));
  expect(answers).toEqual(bodies.map((body) => `200 ${body}`));

  expect(client.open.count).toBe(300);
  const reason = new Error("the test is over");
  for (const exchange of hung) {
    exchange.abort(reason);
    expect(await rejectionOf(exchange.response)).toBe(reason);
  }
  await until("only idle connections are left, 512 at most", () => server.openCount === 512);
  client.close();
  await until("no connection is left", () => server.openCount === 0);
});
