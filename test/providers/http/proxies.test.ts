import { describe, expect, test } from "bun:test";
import { ConnectionError, ProxyError } from "../../../src/providers/http/connectionError.ts";
import {
  answerOf,
  ok,
  openHttpBefore,
  pieceOf,
  rejectionOf,
  request,
  sending,
  textOf,
} from "../../support/gateway/httpClient.ts";
import { testAuthority, type RawPeer } from "../../support/provider/rawServer.ts";
import {
  startForwardProxy,
  type ForwardProxy,
  type ForwardProxyOptions,
} from "../../support/servers/forwardProxy.ts";
import { until } from "../../support/until.ts";
import { sample } from "../../support/sample.ts";

const { serve, clientOf, stopAfterTest } = openHttpBefore();
const ca = testAuthority();
const login = { user: "us er", password: "p@ss word" };
const kinds = ["http", "https", "socks5", "socks5h"] as const;
type Scheme = (typeof kinds)[number];

async function proxyOf(
  scheme: Scheme,
  options: Omit<ForwardProxyOptions, "kind"> = {},
): Promise<ForwardProxy> {
  const kind = scheme === "socks5h" ? "socks5" : scheme;
  const proxy = await startForwardProxy({ kind, ...options });
  stopAfterTest(proxy);
  return proxy;
}

function urlOf(scheme: Scheme, { port }: { readonly port: number }, user = login): string {
  const credentials = `${encodeURIComponent(user.user)}:${encodeURIComponent(user.password)}`;
  return `${scheme}://${credentials}@localhost:${port}`;
}

async function answer(peer: RawPeer): Promise<void> {
  for (;;) await peer.send(ok((await peer.request()).split("\r\n\r\n")[1] ?? ""));
}

/** The code of a failure, and why the proxy opened no tunnel. */
function refusalIn(error: unknown): string {
  if (!(error instanceof ConnectionError)) return String(error);
  return error.cause instanceof ProxyError ? `${error.code}: ${error.cause.refusal}` : error.code;
}

describe.each(sample(kinds, 2))("a proxy behind %s://", (scheme) => {
  const isSocks = scheme.startsWith("socks");
  /** How it is asked for a name that this machine knows too. */
  const localhost = scheme === "socks5" ? /^address (127\.0\.0\.1|\[::1\])/ : /^name localhost/;

  test.each([undefined, login])("carries https over a kept connection, login %p", async (login) => {
    const server = serve(answer, { certificate: "localhost" });
    const proxy = await proxyOf(scheme, { login });
    const https = clientOf(`https://localhost:${server.port}`, {
      ca,
      proxyUrl: login ? urlOf(scheme, proxy) : `${scheme}://localhost:${proxy.port}`,
    });
    for (const body of ["one", "two"])
      expect(await answerOf(https.send(request({ body })))).toBe(`200 ${body}`);
    expect(proxy.asked).toHaveLength(1);
    expect(proxy.asked[0]).toMatch(localhost);
    expect(proxy.logins).toEqual(login ? ["us er p@ss word"] : []);
    expect(server.peers).toHaveLength(1);
  });

  test("carries each part of a stream when it comes, and large bodies both ways", async () => {
    const proceed = Promise.withResolvers<void>();
    const body = "x".repeat(5_000_000);
    const server = serve(
      async (peer) => {
        const seen = await peer.request();
        await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 5000005\r\n\r\nfirst");
        await proceed.promise;
        await peer.send(seen.slice(-body.length));
      },
      { certificate: "localhost" },
    );
    const proxyUrl = urlOf(scheme, await proxyOf(scheme, { login }));
    const https = clientOf(`https://localhost:${server.port}`, { ca, proxyUrl });
    const response = await https.send(request({ body: [Buffer.from(body)] })).response;
    expect(await pieceOf(response)).toBe("first");
    proceed.resolve();
    expect((await textOf(response)) === body).toBe(true);
  });

  test("stops reading while nobody reads", async () => {
    let sentBytes = 0;
    const piece = Buffer.alloc(1_000_000, "x");
    const server = serve(
      async (peer) => {
        await peer.request();
        await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 200000000\r\n\r\n");
        for (let count = 0; count < 200; count++) {
          await peer.send(piece);
          sentBytes += piece.length;
        }
      },
      { certificate: "localhost" },
    );
    const proxyUrl = urlOf(scheme, await proxyOf(scheme, { login }));
    const https = clientOf(`https://localhost:${server.port}`, { ca, proxyUrl });
    const response = await https.send(request()).response;
    // It stands still once all buffers of the system and of the proxy are full.
    let before = -1;
    let stillCount = 0;
    await until("the provider waits", () => {
      stillCount = before === sentBytes ? stillCount + 1 : 0;
      before = sentBytes;
      return stillCount > 200 && sentBytes > 0;
    });
    expect(sentBytes).toBeLessThan(50_000_000);
    expect((await textOf(response)).length).toBe(200_000_000);
  }, 30_000);

  test("reaches a provider by its IPv6 address, and verifies the certificate against it", async () => {
    const plain = serve(answer, { hostname: "::1" });
    const secure = serve(answer, { hostname: "::1", certificate: "localhost" });
    const other = serve(answer, { hostname: "::1", certificate: "otherHost" });
    const proxy = await proxyOf(scheme, { login });
    const proxyUrl = urlOf(scheme, proxy);
    const ask = (url: string) => clientOf(url, { ca, proxyUrl }).send(request());
    if (isSocks) expect(await answerOf(ask(`http://[::1]:${plain.port}`))).toBe("200 {}");
    const { response } = ask(`https://[::1]:${other.port}`);
    expect(refusalIn(await rejectionOf(response))).toBe("tls");
    expect(await answerOf(ask(`https://[::1]:${secure.port}`))).toBe("200 {}");
    expect(proxy.asked.at(-1)).toBe(`address [::1]:${secure.port}`);
  });

  test.each<[string, string, Omit<ForwardProxyOptions, "kind">, string]>([
    ["refuses the password", "login", { login: { ...login, password: "another" } }, "given"],
    ["wants a login that it does not get", "login", { login }, "none"],
    ["does not allow the target", "rules", { refusal: isSocks ? 2 : 403 }, "given"],
    ["cannot reach the target", "target", { refusal: isSocks ? 4 : 502 }, "given"],
    ["fails to connect", "target", { refusal: isSocks ? 1 : 504 }, "given"],
    ["gives an unknown answer", "protocol", { refusal: isSocks ? 200 : 99 }, "given"],
  ])("that %s: %s", async (_, refusal, options, credentials) => {
    const proxy = await proxyOf(scheme, options);
    const proxyUrl =
      credentials === "given" ? urlOf(scheme, proxy) : `${scheme}://localhost:${proxy.port}`;
    const https = clientOf("https://localhost:1", { ca, proxyUrl });
    const error = await rejectionOf(https.send(request()).response);
    expect(refusalIn(error)).toBe(`proxy: ${refusal}`);
    expect(Bun.inspect(error)).not.toContain("p@ss");
    await until("the connection is closed", () => proxy.openCount === 0);
  });

  test.each(["otherHost", "expired", "selfSigned"] as const)(
    "cannot make the certificate %s pass",
    async (certificate) => {
      const server = serve(answer, { certificate });
      const proxyUrl = urlOf(scheme, await proxyOf(scheme, { login }));
      for (const host of ["localhost", "127.0.0.1"]) {
        const https = clientOf(`https://${host}:${server.port}`, { ca, proxyUrl });
        expect(refusalIn(await rejectionOf(https.send(request()).response))).toBe("tls");
      }
      expect(server.peers.every(({ unread }) => unread.length === 0)).toBe(true);
    },
  );

  const certificate = scheme === "https" ? ({ certificate: "localhost" } as const) : {};
  test.each(
    Object.entries({
      "speaks another protocol": (peer: RawPeer) => peer.send("who are you?"),
      "closes at once": (peer: RawPeer) => peer.fin(),
      "resets at once": (peer: RawPeer) => peer.reset(),
    }),
  )("that %s", async (_, script) => {
    const proxy = serve(script, certificate);
    const proxyUrl = `${scheme}://localhost:${proxy.port}`;
    const https = clientOf("https://localhost:1", { ca, proxyUrl });
    const error = await rejectionOf(https.send(request()).response);
    expect(refusalIn(error)).toMatch(/^proxy: (protocol|tls)$/);
    await proxy.peers[0]?.closed;
  });

  test("that says nothing: timeout, and an abort, close the connection", async () => {
    const proxy = serve(() => {}, certificate);
    const proxyUrl = `${scheme}://localhost:${proxy.port}`;
    const hasty = clientOf("https://localhost:1", { ca, proxyUrl, connectTimeoutMs: 50 });
    expect(refusalIn(await rejectionOf(hasty.send(request()).response))).toBe("timeout");
    const patient = clientOf("https://localhost:1", { ca, proxyUrl });
    const exchange = patient.send(request());
    await until("it was asked", () => (proxy.peers[1]?.unread.length ?? 0) > 0);
    exchange.abort(new Error("the test has had enough"));
    await Promise.all(proxy.peers.map(({ closed }) => closed));
    expect([hasty.open.count, patient.open.count]).toEqual([0, 0]);
  });

  test("that does not listen, or is not known", async () => {
    const proxy = await proxyOf(scheme);
    proxy.stop();
    for (const [host, code] of [
      ["127.0.0.1", "refused"],
      ["proxy.invalid", "dns"],
    ] as const) {
      const proxyUrl = `${scheme}://${host}:${proxy.port}`;
      const https = clientOf("https://localhost:1", { ca, proxyUrl });
      expect(refusalIn(await rejectionOf(https.send(request()).response))).toBe(code);
    }
  });

  test("a name that only the proxy knows", async () => {
    // An http provider gets no tunnel through an HTTP proxy.
    const server = serve(answer, isSocks ? {} : { certificate: "otherHost" });
    const proxy = await proxyOf(scheme, { login });
    const protocol = isSocks ? "http" : "https";
    const { response } = clientOf(`${protocol}://provider.invalid:${server.port}`, {
      ca,
      proxyUrl: urlOf(scheme, proxy),
    }).send(request());
    if (scheme === "socks5h") expect(await answerOf({ response })).toBe("200 {}");
    else expect(refusalIn(await rejectionOf(response))).toBe(isSocks ? "dns" : "tls");
    expect(proxy.asked).toEqual(
      scheme === "socks5" ? [] : [`name provider.invalid:${server.port}`],
    );
  });
});

describe("an HTTP proxy", () => {
  const connect = "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n";

  test("gets its credentials, and nothing of the request", async () => {
    const proxy = serve(() => {});
    const proxyUrl = `http://user:p%40ss@127.0.0.1:${proxy.port}`;
    const headers = { authorization: "Bearer secret" };
    clientOf("https://localhost:1", { ca, proxyUrl }).send(request({ headers }));
    const asked = `${connect}Proxy-Authorization: Basic ${btoa("user:p@ss")}\r\n\r\n`;
    await until("it was asked", () => (proxy.peers[0]?.unread.length ?? 0) >= asked.length);
    expect(proxy.peers[0]?.unread.toString()).toBe(asked);
  });

  test("must not send bytes behind its answer", async () => {
    const proxy = serve((peer) => peer.send("HTTP/1.1 200 OK\r\n\r\nsurplus"));
    const proxyUrl = `http://127.0.0.1:${proxy.port}`;
    const { response } = clientOf("https://localhost:1", { ca, proxyUrl }).send(request());
    expect(refusalIn(await rejectionOf(response))).toBe("proxy: protocol");
  });

  test.each(["http", "https"] as const)(
    "behind %s:// gets the absolute URL of an http provider",
    async (scheme) => {
      let asked = "";
      const proxy = serve(
        sending((text) => {
          asked = text;
          return ok("by the proxy");
        }),
        scheme === "https" ? { certificate: "localhost" } : {},
      );
      const proxyUrl = `${scheme}://user:pass@localhost:${proxy.port}`;
      const http = clientOf("http://provider.example:8080/v1", { ca, proxyUrl });
      expect(await answerOf(http.send(request()))).toBe("200 by the proxy");
      expect(asked.split("\r\n").slice(0, 3)).toEqual([
        "POST http://provider.example:8080/v1/chat HTTP/1.1",
        "Host: provider.example:8080",
        `Proxy-Authorization: Basic ${btoa("user:pass")}`,
      ]);
    },
  );
});

describe("a proxy behind https:// gets nothing if its certificate is wrong", () => {
  const targets = ["http://localhost:1", "https://localhost:1"];
  const certificates = ["otherHost", "expired", "selfSigned", "localhost"] as const;
  const pairs = targets.flatMap((target) => certificates.map((name) => [target, name] as const));
  test.each(sample(pairs, 3))("%s, %s", async (target, certificate) => {
    const proxy = await proxyOf("https", { login, certificate });
    const trusted = certificate === "localhost" ? {} : { ca };
    const { response } = clientOf(target, { proxyUrl: urlOf("https", proxy), ...trusted }).send(
      request(),
    );
    expect(refusalIn(await rejectionOf(response))).toBe("proxy: tls");
    expect(proxy.bytesReceived).toBe(0);
  });
});
