import { describe, expect, test } from "bun:test";
import { usual } from "../../support/provider/chatAnswers.ts";
import { ask, badKey } from "../../support/gateway/chatCalls.ts";
import { openOneModelBefore } from "../../support/gateway/gatewayUnderTest.ts";
import { chatBytes, connectRaw, type RawClient } from "../../support/gateway/rawClient.ts";
import { isAnyServerTested } from "../../support/testedEngines.ts";
import { until } from "../../support/until.ts";

const at = openOneModelBefore();

const body = JSON.stringify(ask());
const invalidHost = '{"error":{"message":"invalid host header","type":"invalid_request_error"}}';
const notFound = '{"error":{"message":"not found","type":"invalid_request_error"}}';
const strange = JSON.stringify({ error: { message: badKey[2], type: badKey[1] } });

/** The answer to a request of these bytes. `KEY` is replaced by a valid key. */
async function answerTo(bytes: string): Promise<readonly [status: number, body: string]> {
  const client = await connectRaw(at.gateway.port);
  client.send(Buffer.from(bytes.replace("KEY", (await at.gateway.key()).key), "latin1"));
  const { status, body } = await client.response();
  client.reset();
  return [status, body];
}

function get(target: string, lines: string, version = "HTTP/1.1"): string {
  return `GET ${target} ${version}\r\n${lines}\r\n`;
}

const host = "Host: localhost\r\n";
const authorization = "Authorization: Bearer KEY\r\n";
const post = `POST /v1/chat/completions HTTP/1.1\r\n${host}${authorization}`;

describe("the Host header", () => {
  test.each([
    ["a slash", "a/healthz?"],
    ["a question mark", "a?b"],
    ["a hash", "a#b"],
    ["a user", "a@b"],
    ["a blank", "a b"],
    ["a tab", "a\tb"],
    ["a backslash", "a\\b"],
  ])("with %s is refused, with a valid key and without", async (_, value) => {
    const lines = `Host: ${value}\r\n`;
    expect(await answerTo(get("/v1/models", lines + authorization))).toEqual([400, invalidHost]);
    expect(await answerTo(get("/v1/models", lines))).toEqual([400, invalidHost]);
    expect(await answerTo(get("/healthz", lines))).toEqual([400, invalidHost]);
  });

  test("is refused when it is sent twice", async () => {
    const lines = "Host: a\r\nHost: b\r\n";
    expect(await answerTo(get("/v1/models", lines + authorization))).toEqual([400, invalidHost]);
  });

  test.each(["", "[", "a:99999", "a%00b", "\u00e9", "evil.example"])(
    "%j does not change who is let in",
    async (value) => {
      const lines = `Host: ${value}\r\n`;
      expect((await answerTo(get("/v1/models", lines + authorization)))[0]).toBe(200);
      expect(await answerTo(get("/v1/models", lines))).toEqual([401, strange]);
    },
  );

  test.each(["", "\u00e9", "x", "gw", "gw:80", "a.b", "x:1", "llm", "gw:8080"])(
    "%j does not change the path",
    async (value) => {
      const lines = `Host: ${value}\r\n${authorization}`;
      const [status, text] = await answerTo(get("/v1/models/small", lines));
      expect([status, JSON.parse(text)]).toMatchObject([200, { id: "small" }]);
      const record = await answerTo(get("/v1/requests/req_x", lines));
      expect(record).toEqual([404, notFound.replace("not found", "request not found")]);
      expect((await answerTo(get("/v1/usage?by=model", lines)))[0]).toBe(200);
      expect(at.gateway.log.map(({ path }) => path).slice(-3)).toEqual([
        "/v1/models/small",
        "/v1/requests/req_x",
        "/v1/usage",
      ]);
      expect((await answerTo(get("/healthz", lines)))[0]).toBe(200);
      for (const target of ["/ab/v1/account", "/a/v1/account", "/zz/healthz", "/abc/v1/models"]) {
        expect([target, await answerTo(get(target, lines))]).toEqual([target, [404, notFound]]);
      }
    },
  );

  test("may be absent in HTTP/1.0, where a key is still required", async () => {
    expect((await answerTo(get("/v1/models", authorization, "HTTP/1.0")))[0]).toBe(200);
    expect(await answerTo(get("/v1/models", "", "HTTP/1.0"))).toEqual([401, strange]);
    expect(await answerTo(get("/healthz", "", "HTTP/1.1"))).toEqual([400, ""]);
  });
});

describe("the target", () => {
  test.each(["http://evil.example/v1/models", "/v1/./models", "/x/../v1/models", "/v1/%2e/models"])(
    "%s is the model list, for a valid key",
    async (target) => {
      const [status, text] = await answerTo(get(target, host + authorization));
      expect([status, JSON.parse(text)]).toMatchObject([200, { object: "list" }]);
      expect(await answerTo(get(target, host))).toEqual([401, strange]);
    },
  );

  test.each(["/v1/chat/completions", "/v1/./chat/completions", "/x/../v1/chat/completions"])(
    "%s is the chat, for a valid key and any Host",
    async (target) => {
      at.provider.answer = usual;
      const end = `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
      for (const name of ["localhost", "x", "evil.example"]) {
        const head = `POST ${target} HTTP/1.1\r\nHost: ${name}\r\n`;
        expect([name, (await answerTo(head + authorization + end))[0]]).toEqual([name, 200]);
        expect(await answerTo(head + end)).toEqual([401, strange]);
      }
      expect(await answerTo(`POST ${target} HTTP/1.1\r\nHost: a/b\r\n${end}`)).toEqual([
        400,
        invalidHost,
      ]);
    },
  );

  test.each([
    "//v1/models",
    "//localhost/v1/models",
    "/v1//models",
    "/v1/../admin",
    "/v1/models%00",
    "/v1/models;x",
    "/v1/models%3Fx",
    "/v1%2Fmodels",
    "/V1/models",
    "/v1/MODELS",
  ])("%s is not found", async (target) => {
    expect(await answerTo(get(target, host + authorization))).toEqual([404, notFound]);
  });
});

describe("a method", () => {
  test.each(["CONNECT", "TRACE", "PUT", "DELETE", "PATCH", "QUERY"])(
    "%s is refused on every path",
    async (method) => {
      for (const target of ["/v1/models", "/v1/chat/completions", "/healthz", "/x"]) {
        const bytes = `${method} ${target} HTTP/1.1\r\n${host}${authorization}\r\n`;
        expect([target, await answerTo(bytes)]).toEqual([target, [404, notFound]]);
      }
    },
  );

  test("CONNECT with an authority opens no tunnel", async () => {
    const bytes = "CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: 127.0.0.1:443\r\n\r\n";
    expect(await answerTo(bytes)).toEqual([404, notFound]);
  });
});

describe("invalid HTTP/1.1 gets a bare refusal and does not reach a handler", () => {
  test.each([
    ["a head over the limit", get("/healthz", `${host}x: ${"a".repeat(20_000)}\r\n`), 431],
    ["too many headers", get("/healthz", host + "x: a\r\n".repeat(300)), 431],
    ["a target over the limit", get(`/${"a".repeat(20_000)}`, host), 431],
    [
      "a TLS hello",
      "\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc\u0003\u0003\r\n\r\n",
      400,
    ],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400],
    ["a target without a slash", get("v1/models", host), 400],
    [
      "a length and chunks",
      `${post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      400,
    ],
    ["two lengths", `${post}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`, 400],
    ["a negative length", `${post}Content-Length: -1\r\n\r\n`, 400],
    ["a length with a plus", `${post}Content-Length: +5\r\n\r\nhello`, 400],
    [
      "another transfer coding",
      `${post}Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n`,
      400,
    ],
    ["a bad chunk size", `${post}Transfer-Encoding: chunked\r\n\r\nzz\r\n`, 400],
    ["bare line feeds", "GET /healthz HTTP/1.1\nHost: localhost\n\n", 505],
  ])("%s", async (_, bytes, status) => {
    const logged = at.gateway.log.length;
    expect(await answerTo(bytes)).toEqual([status, ""]);
    expect(at.provider.requests).toHaveLength(0);
    // A request with a valid head has a log line, like one whose client disconnected.
    expect(at.gateway.log.slice(logged).filter(({ status }) => status === 200)).toEqual([]);
  });
});

describe("the framing of a body", () => {
  test.each([
    [
      "two equal lengths",
      `Content-Length: ${body.length}\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    ],
    [
      "chunks with extensions",
      `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)};a=b\r\n${body}\r\n0;c\r\n\r\n`,
    ],
    [
      "many small chunks",
      `Transfer-Encoding: chunked\r\n\r\n${body.replace(/./gs, "1\r\n$&\r\n")}0\r\n\r\n`,
    ],
    [
      "a length, with a trailer announced that cannot come",
      `Trailer: X-Checksum\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    ],
    [
      "chunks, with a trailer announced that has no name",
      `Trailer:\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`,
    ],
  ])("with %s is read completely", async (_, rest) => {
    at.provider.answer = usual;
    expect((await answerTo(post + rest))[0]).toBe(200);
    expect(at.provider.requests.map(({ json }) => json["messages"])).toEqual([ask()["messages"]]);
  });

  test("ignores a key in its trailer", async () => {
    const { key } = await at.gateway.key();
    const bytes = `POST /v1/chat/completions HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\nAuthorization: Bearer ${key}\r\n\r\n`;
    expect(await answerTo(bytes)).toEqual([401, strange]);
    expect(at.provider.requests).toHaveLength(0);
  });

  test.each(["/v1/chat/completions", "/v1/responses"])(
    "must not have a trailer: %s is refused, and nothing is charged",
    async (path) => {
      at.provider.answer = usual;
      const key = await at.gateway.key();
      const head = `POST ${path} HTTP/1.1\r\n${host}Authorization: Bearer ${key.key}\r\nTransfer-Encoding: chunked\r\nTrailer: X-Checksum\r\n\r\n`;
      const bytes = `${head}${body.length.toString(16)}\r\n${body}\r\n0\r\nX-Checksum: 1\r\n\r\n`;
      const error = { message: "trailers are not supported", type: "invalid_request_error" };
      // While a server is asked, Bun reads the trailer and refuses it itself, without a body.
      const refused = isAnyServerTested ? "" : JSON.stringify({ error });
      expect(await answerTo(bytes)).toEqual([400, refused]);
      expect(at.provider.requests).toHaveLength(0);
      expect(at.gateway.log.at(-1)).toMatchObject({ msg: "request", status: 400 });
    },
  );

  test("sends 100 Continue when the client expects it", async () => {
    at.provider.answer = usual;
    const client = await connectRaw(at.gateway.port);
    const [head = ""] = chatBytes((await at.gateway.key()).key, body).split("\r\n\r\n");
    client.send(`${head}\r\nExpect: 100-continue\r\n\r\n`);
    await client.seen("HTTP/1.1 100 Continue\r\n\r\n");
    client.send(body);
    await client.seen("Hello there");
    client.fin();
  });
});

describe("pipelined requests", () => {
  async function answers(client: RawClient, count: number): Promise<readonly number[]> {
    const statuses: number[] = [];
    while (statuses.length < count && !(client.isClosed && client.text === "")) {
      statuses.push((await client.response()).status);
    }
    return statuses;
  }

  test("on one connection are each answered and charged", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const client = await connectRaw(at.gateway.port);
    for (let round = 0; round < 3; round += 1) {
      client.send(chatBytes(key.key, body));
      expect((await client.response()).status).toBe(200);
    }
    client.fin();
    expect(await at.gateway.records(key, 3)).toMatchObject([
      { status: "done" },
      { status: "done" },
      { status: "done" },
    ]);
  });

  test("sent without waiting are answered or cut, and each that reached a provider is charged once", async () => {
    at.provider.answer = usual;
    const key = await at.gateway.key();
    const client = await connectRaw(at.gateway.port);
    client.send(chatBytes(key.key, body).repeat(5));
    const statuses = await answers(client, 5);
    client.fin();
    expect(statuses.filter((status) => status !== 200 && status !== 0)).toEqual([]);
    await at.gateway.expectAuditPasses();
    const records = (await at.gateway.store.requests.list({ account: key.account }, { limit: 10 }))
      .rows;
    expect(records).toHaveLength(at.provider.requests.length);
    expect(records.filter(({ charge }) => charge === 0n)).toEqual([]);
  });
});

describe("a client that disconnects while it sends its body", () => {
  test("leaves nothing: no call, no record, no slot taken", async () => {
    const key = await at.gateway.key({ concurrentRequests: 1 });
    const lines = () => at.gateway.log.filter((line) => line["key"] === key.id);
    for (const disconnect of ["fin", "reset"] as const) {
      const logged = lines().length;
      const client = await connectRaw(at.gateway.port);
      const [head = ""] = chatBytes(key.key, body).split("\r\n\r\n");
      client.send(`${head}\r\nExpect: 100-continue\r\n\r\n{"model":`);
      await client.seen("100 Continue");
      client[disconnect]();
      await until("the request is over", () => lines().length > logged);
      expect(lines().at(-1)).toMatchObject({ level: "info", status: 400 });
    }
    expect(at.provider.requests).toHaveLength(0);
    expect(await at.gateway.records(key, 0)).toEqual([]);
    at.provider.answer = usual;
    const client = await connectRaw(at.gateway.port);
    client.send(chatBytes(key.key, body));
    expect((await client.response()).status).toBe(200);
    client.fin();
  });
});

describe("a WebSocket", () => {
  const upgrade =
    "Connection: Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  const refusal = {
    error: {
      message: "websocket is not supported: send the request as POST /v1/responses",
      type: "invalid_request_error",
    },
  };

  test.each([authorization, ""])("for responses is a 426 (%j)", async (key) => {
    const client = await connectRaw(at.gateway.port);
    client.send(
      Buffer.from(
        get("/v1/responses", host + key + upgrade).replace("KEY", (await at.gateway.key()).key),
      ),
    );
    const { status, head, body } = await client.response();
    expect([status, JSON.parse(body)]).toEqual([426, refusal]);
    expect(head).toMatch(/^upgrade: HTTP\/1\.1\r?$/im);
    expect(head).toMatch(/^connection: upgrade\r?$/im);
    client.reset();
    expect(at.gateway.log.findLast(({ msg }) => msg === "request")).toMatchObject({ status: 426 });
  });

  test.each([
    ["/v1/chat/completions", 404],
    ["/v1/models", 200],
  ] as const)("on %s changes nothing: %d", async (path, status) => {
    const answered = await answerTo(get(path, host + authorization + upgrade));
    expect(answered[0]).toBe(status);
  });
});
