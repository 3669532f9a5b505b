import { describe, expect, spyOn, test } from "bun:test";
import { readFileSync } from "node:fs";
import {
  answerOf,
  failureOf,
  ok,
  openHttpBefore,
  rejectionOf,
  request,
  sending,
} from "../../support/gateway/httpClient.ts";
import { testAuthority, type RawPeer, type RawServer } from "../../support/provider/rawServer.ts";
import { until } from "../../support/until.ts";

const { serve, clientOf, stopAfterTest } = openHttpBefore();

async function answer(peer: RawPeer): Promise<void> {
  for (;;) {
    await peer.request();
    await peer.send(ok("fine"));
  }
}

/** The kernel's timer of the connection to this port: https://docs.kernel.org/networking/proc_net_tcp.html */
function timerOf(port: number): { kind: string; isWithinS: number } {
  const remote = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const lines = readFileSync("/proc/net/tcp", "utf8").split("\n");
  const [kind, ticks = ""] =
    lines
      .map((line) => line.trim().split(/ +/))
      .find((fields) => fields[2] === remote)?.[5]
      ?.split(":") ?? [];
  const seconds = Number.parseInt(ticks, 16) / 100;
  return {
    kind: kind === "02" ? "keep-alive" : String(kind),
    isWithinS: Math.ceil(seconds / 30) * 30,
  };
}

/** What got through TLS. A connection whose handshake fails counts for nothing. */
function bytesSeenBy(server: RawServer): number {
  return server.peers.reduce((sum, peer) => sum + peer.unread.length, 0);
}

describe("TCP", () => {
  test("a refused connection", async () => {
    const server = serve(answer);
    server.stop();
    const { response } = clientOf(`http://127.0.0.1:${server.port}`).send(request());
    expect(await failureOf(response)).toBe("refused");
  });

  test("an exchange may take longer than the connect timeout", async () => {
    const server = serve(async (peer) => {
      await peer.request();
      await Bun.sleep(120);
      await peer.send(ok("fine"));
    });
    const http = clientOf(`http://127.0.0.1:${server.port}`, { connectTimeoutMs: 40 });
    expect(await answerOf(http.send(request()))).toBe("200 fine");
  });

  test.skipIf(process.platform !== "linux")(
    "a silent connection is probed, so that no network forgets it during a long answer",
    async () => {
      const server = serve(() => {});
      const exchange = clientOf(server).send(request());
      await until("the request has arrived", () => (server.peers[0]?.unread.length ?? 0) > 0);
      expect(timerOf(server.port)).toEqual({ kind: "keep-alive", isWithinS: 30 });
      exchange.abort(new Error("the test is over"));
    },
  );

  test("a name that does not exist", async () => {
    const { response } = clientOf("http://nowhere.invalid").send(request());
    expect(await failureOf(response)).toBe("dns");
  });

  test("an IPv6 address in the URL", async () => {
    const server = serve(
      sending((seen) => ok(/^Host: (.*)\r$/m.exec(seen)?.[1] ?? "")),
      { hostname: "::1" },
    );
    const exchange = clientOf(`http://[::1]:${server.port}`).send(request());
    expect(await answerOf(exchange)).toBe(`200 [::1]:${server.port}`);
  });

  test("an address that drops packets: timeout, nothing stays open", async () => {
    // A process that listens and never accepts; the system completes as many connections as its queue
    // holds and drops the first packets of all others.
    const program = `
      const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data() {} } });
      require("node:fs").writeSync(1, listener.port + "\\n");
      Bun.sleepSync(60000);`;
    const child = Bun.spawn([process.execPath, "-e", program], { stdout: "pipe" });
    stopAfterTest({ stop: () => child.kill("SIGKILL") });
    const { value } = await child.stdout.getReader().read();
    const baseUrl = `http://127.0.0.1:${Number(Buffer.from(value ?? []).toString())}`;
    const filling = clientOf(baseUrl, { connectTimeoutMs: 60_000 });
    const fillers = Array.from({ length: 600 }, () => filling.send(request()));
    const { response } = clientOf(baseUrl, { connectTimeoutMs: 100 }).send(request());
    expect(await failureOf(response)).toBe("timeout");
    for (const filler of fillers) {
      filler.abort(new Error("the test is over"));
    }
    expect(filling.open.count).toBe(0);
  });
});

describe("TLS", () => {
  const ca = testAuthority();

  for (const host of ["localhost", "127.0.0.1"]) {
    test(`the right certificate: ${host}`, async () => {
      const server = serve(answer, { certificate: "localhost" });
      const https = clientOf(`https://${host}:${server.port}`, { ca });
      expect(await answerOf(https.send(request()))).toBe("200 fine");
      expect(await answerOf(https.send(request({ body: "again" })))).toBe("200 fine");
      expect(server.peers).toHaveLength(1);
    });

    for (const certificate of ["otherHost", "expired", "selfSigned"] as const) {
      test(`the certificate ${certificate} is refused before a byte is sent: ${host}`, async () => {
        const server = serve(answer, { certificate });
        const https = clientOf(`https://${host}:${server.port}`, { ca });
        expect(await failureOf(https.send(request()).response)).toBe("tls");
        expect(bytesSeenBy(server)).toBe(0);
      });
    }
  }

  describe("a session", () => {
    const https = (server: { port: number }) =>
      clientOf(`https://localhost:${server.port}`, { ca });
    const closing = async (peer: RawPeer): Promise<void> => {
      await peer.request();
      await peer.send(ok(String(peer.isResumed), "Connection: close\r\n"));
    };

    test("shortens the handshakes of the next connections", async () => {
      const server = serve(closing, { certificate: "localhost" });
      const client = https(server);
      const answers = [];
      for (let count = 0; count < 3; count += 1) {
        answers.push(await answerOf(client.send(request())));
      }
      expect(answers).toEqual(["200 false", "200 true", "200 true"]);
      expect(await answerOf(https(server).send(request()))).toBe("200 false");
    });

    test("ends after an hour, however often it was renewed", async () => {
      const server = serve(closing, { certificate: "localhost" });
      const client = https(server);
      const now = performance.now.bind(performance);
      let aheadMs = 0;
      const clock = spyOn(performance, "now").mockImplementation(() => now() + aheadMs);
      try {
        const answers = [];
        for (const minutes of [0, 25, 50, 75, 76]) {
          aheadMs = minutes * 60_000;
          answers.push(await answerOf(client.send(request())));
        }
        expect(answers).toEqual(["200 false", "200 true", "200 true", "200 false", "200 true"]);
      } finally {
        clock.mockRestore();
      }
    });

    test("that the server does not know any more costs a whole handshake", async () => {
      const first = serve(closing, { certificate: "localhost" });
      const client = https(first);
      expect(await answerOf(client.send(request()))).toBe("200 false");
      first.stop();
      const { port } = first;
      const second = serve(closing, { certificate: "localhost", port });
      expect(await answerOf(client.send(request()))).toBe("200 false");
      expect(second.peers).toHaveLength(1);
    });

    test("does not stand for another certificate", async () => {
      const first = serve(closing, { certificate: "localhost" });
      const client = https(first);
      expect(await answerOf(client.send(request()))).toBe("200 false");
      first.stop();
      const other = serve(closing, { certificate: "otherHost", port: first.port });
      expect(await failureOf(client.send(request()).response)).toBe("tls");
      expect(bytesSeenBy(other)).toBe(0);
    });
  });

  test("an authority that is not configured is not trusted", async () => {
    const server = serve(answer, { certificate: "localhost" });
    const https = clientOf(`https://localhost:${server.port}`);
    expect(await failureOf(https.send(request()).response)).toBe("tls");
    expect(bytesSeenBy(server)).toBe(0);
  });

  test("an authority that is no certificate", async () => {
    const https = clientOf("https://127.0.0.1:1", { ca: "not a certificate" });
    expect(await failureOf(https.send(request()).response)).toBe("tls");
  });

  test("NODE_TLS_REJECT_UNAUTHORIZED=0 changes nothing", async () => {
    const server = serve(answer, { certificate: "selfSigned" });
    const program = `
      import { createHttpClient } from "./src/providers/http/client.ts";
      const client = createHttpClient({ baseUrl: "https://localhost:${server.port}", connectTimeoutMs: 2000 });
      const ended = (failure) => console.log(failure.code);
      client.send({ path: "/", headers: {}, body: "" }, { responded() {}, exceeded() {}, ended });`;
    const child = Bun.spawn([process.execPath, "-e", program], {
      cwd: new URL("../../..", import.meta.url).pathname,
      env: { ...process.env, NODE_TLS_REJECT_UNAUTHORIZED: "0" },
      stdout: "pipe",
      stderr: "ignore",
    });
    expect(await child.stdout.text()).toBe("tls\n");
    expect(bytesSeenBy(server)).toBe(0);
  });

  for (const [name, script] of Object.entries({
    "speaks no TLS": (peer: RawPeer) => peer.send("HTTP/1.1 400 Bad Request\r\n\r\n"),
    "closes at once": (peer: RawPeer) => peer.fin(),
    "resets at once": (peer: RawPeer) => peer.reset(),
  })) {
    test(`a server that ${name}`, async () => {
      const server = serve(script);
      const https = clientOf(`https://127.0.0.1:${server.port}`, { ca });
      expect(await failureOf(https.send(request()).response)).toBe("tls");
    });
  }

  test("a handshake that hangs: timeout, and the connection is closed", async () => {
    const server = serve(() => {});
    const https = clientOf(`https://127.0.0.1:${server.port}`, { ca, connectTimeoutMs: 50 });
    expect(await failureOf(https.send(request()).response)).toBe("timeout");
    await server.peers[0]?.closed;
    expect(https.open.count).toBe(0);
  });

  test("abort during the handshake closes the connection", async () => {
    const server = serve(() => {});
    const https = clientOf(`https://127.0.0.1:${server.port}`, { ca });
    const exchange = https.send(request());
    await until("the handshake has begun", () => (server.peers[0]?.unread.length ?? 0) > 0);
    const reason = new Error("the test has had enough");
    exchange.abort(reason);
    expect(await rejectionOf(exchange.response)).toBe(reason);
    await server.peers[0]?.closed;
  });
});

describe("a process that stands still while it connects", () => {
  const connectTimeoutMs = 1500;
  const options = { ca: testAuthority(), connectTimeoutMs };

  test("connects although it stood still for longer than the timeout", async () => {
    const server = serve(answer, { certificate: "localhost" });
    const exchange = clientOf(`https://localhost:${server.port}`, options).send(request());
    Bun.sleepSync(2 * connectTimeoutMs);
    expect(await answerOf(exchange)).toBe("200 fine");
  });

  test("still times out if nothing answers", async () => {
    const server = serve(() => {});
    const startedMs = performance.now();
    const { response } = clientOf(`https://localhost:${server.port}`, options).send(request());
    Bun.sleepSync(connectTimeoutMs);
    expect(await failureOf(response)).toBe("timeout");
    expect(performance.now() - startedMs).toBeLessThan(3 * connectTimeoutMs);
  });
});
