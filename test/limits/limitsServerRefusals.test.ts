import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { systemClock } from "../../src/lib/clock.ts";
import { logLimitsServer, openSharedRates } from "../../src/limits/sharedRates.ts";
import { createLog } from "../../src/telemetry/log.ts";
import { noLimits } from "../support/gateway/permits.ts";
import { openReplica, ServerView, type TestReplica } from "../support/limits/sharedLimiters.ts";
import { describeRedis } from "../support/servers/describeServers.ts";
import { startRedis, type RedisServer } from "../support/servers/redis.ts";
import { freePort } from "../support/servers/serverProcess.ts";
import { until } from "../support/until.ts";

const certificates = join(import.meta.dir, "../support/certificates");
const slotHolder = join(import.meta.dir, "../support/limits/slotHolder.ts");

describeRedis("a limits server", () => {
  let server: RedisServer;
  let view: ServerView;
  const tlsPort = freePort();
  const opened: TestReplica[] = [];

  beforeAll(async () => {
    const tls = {
      "tls-port": String(tlsPort),
      "tls-cert-file": join(certificates, "localhost.pem"),
      "tls-key-file": join(certificates, "server.key"),
      "tls-ca-cert-file": join(certificates, "authority.pem"),
      "tls-auth-clients": "no",
    };
    server = await startRedis(Object.entries(tls).flatMap(([name, value]) => [`--${name}`, value]));
    view = new ServerView(server.url);
  });

  afterEach(async () => {
    for (const { limiter } of opened.splice(0)) await limiter.close();
  });

  afterAll(async () => {
    await view[Symbol.asyncDispose]();
    await server.close();
  });

  function opening(url: string): TestReplica {
    const replica = openReplica(url);
    opened.push(replica);
    return replica;
  }

  interface Refusal {
    /** After the scheme: user, password, host, port, database. PORT is that of the server. */
    readonly url?: string;
    readonly refuse: readonly string[];
    readonly accept: readonly string[];
    readonly words: string;
  }

  const refusals: Readonly<Record<string, Refusal>> = {
    "a wrong password": {
      url: "redis://:canary@127.0.0.1:PORT",
      refuse: ["CONFIG SET requirepass right"],
      accept: ["CONFIG SET requirepass canary"],
      words: "it refuses the user or the password of limits.redis",
    },
    "a missing password": {
      refuse: ["CONFIG SET requirepass canary"],
      accept: ["ACL SETUSER default nopass"],
      words: "it asks for a password: write one into limits.redis",
    },
    "a user without permissions": {
      url: "redis://gate:canary@127.0.0.1:PORT",
      refuse: ["ACL SETUSER gate on >canary ~other:* +@all"],
      accept: ["ACL SETUSER gate ~tollgate:* +@all -@dangerous +info"],
      words: "its user lacks a permission",
    },
    "a command within a script": {
      url: "redis://gate:canary@127.0.0.1:PORT",
      refuse: ["ACL SETUSER gate on >canary ~tollgate:* +@all -zadd"],
      accept: ["ACL SETUSER gate +zadd"],
      words: "its user lacks a permission",
    },
    "writes, because it is a replica": {
      refuse: ["REPLICAOF 127.0.0.1 1"],
      accept: ["REPLICAOF NO ONE"],
      words: "it is a read-only replica: use the address of the primary",
    },
    "writes, because its memory is full": {
      refuse: ["CONFIG SET maxmemory 1"],
      accept: ["CONFIG SET maxmemory 0"],
      words: "its memory is full: raise its maxmemory",
    },
    "keys that another program uses": {
      refuse: ["SET tollgate:rates:0 canary"],
      accept: ["DEL tollgate:rates:0"],
      words: "another program uses its keys tollgate:*",
    },
    "a database that it does not have": {
      url: "redis://127.0.0.1:PORT/99",
      refuse: [],
      accept: [],
      words: "it has no database of the number in limits.redis",
    },
  };

  test.each(Object.entries(refusals))(
    "that refuses %s is described, and used once it does not",
    async (_, refusal) => {
      const { url = "redis://127.0.0.1:PORT", refuse, accept, words } = refusal;
      for (const line of refuse) await send(line);
      const replica = opening(url.replace("PORT", String(server.port)));
      await until("the refusal is told", () => replica.problems.length > 0);
      expect(replica.problems).toEqual([expect.stringContaining(words)]);
      expect(JSON.stringify(replica.problems)).not.toContain("canary");
      expect(replica.limiter.admit(1, { ...noLimits, requestsPerMinute: 1 })).toMatchObject({
        ok: true,
      });
      if (accept.length === 0) return;
      for (const line of accept) await send(line);
      await replica.isUsed();
      await until("the outage is over", () => replica.outages.length > 0);
      expect(replica.outages).toMatchObject([{ byShare: 1 }]);
    },
  );

  async function send(line: string): Promise<void> {
    const [command = "", ...args] = line.split(" ");
    await view.send(command, ...args);
  }

  test("that begins to refuse is described once more", async () => {
    const replica = opening(server.url);
    await replica.isUsed();
    await view.send("CONFIG", "SET", "requirepass", "another");
    await view.send("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await until("the refusal is told", () => replica.problems.length > 1);
    await view.send("ACL", "SETUSER", "default", "nopass");
    await replica.isUsed();
    expect(replica.problems).toEqual([
      "no connection: nothing accepts it, or it was closed",
      "it asks for a password: write one into limits.redis",
    ]);
  });

  test.each([
    ["speaks HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n"],
    ["speaks something else", "220 mail.example ESMTP\r\n"],
  ])("that %s is no limits server", async (_, greeting) => {
    const listener = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: { data: (socket) => void socket.write(greeting) },
    });
    const replica = opening(`redis://:canary@127.0.0.1:${listener.port}`);
    await until("the problem is told", () => replica.problems.length > 0);
    listener.stop(true);
    expect(replica.problems).toEqual(["what answers at its address is no Valkey and no Redis"]);
  });

  test("that falls silent after the greeting is given up, and tried again", async () => {
    let connections = 0;
    const greeting = "%1\r\n+server\r\n+redis\r\n";
    const listener = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open: () => void (connections += 1),
        data: (socket, bytes) => void (bytes.includes("HELLO") && socket.write(greeting)),
      },
    });
    const replica = opening(`redis://127.0.0.1:${listener.port}`);
    await until("a second connection is tried", () => connections > 1);
    listener.stop(true);
    expect(replica.problems).toEqual(["no connection: nothing accepts it, or it was closed"]);
  });

  test("is a line of the log when it is lost, and when it is back", async () => {
    await send("ACL SETUSER gate on resetpass >another");
    const lines: string[] = [];
    const log = createLog({ level: "info", format: "json" }, (text) => void lines.push(text));
    const limiter = openSharedRates({
      url: server.url.replace("//", "//gate:canary@"),
      clock: systemClock,
      replicas: () => 1,
      listener: logLimitsServer(log),
      times: { pauseMs: 5, steadyMs: 5 },
    });
    await until("a line is written", () => lines.length > 0);
    await limiter.admit(1, { ...noLimits, requestsPerMinute: 1 });
    await send("ACL SETUSER gate on >canary ~tollgate:* +@all");
    await until("another line is written", () => lines.length > 1);
    await limiter.close();
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      {
        level: "warn",
        msg: "the limits server cannot be used: this replica allows its share of each limit",
        problem: "it refuses the user or the password of limits.redis",
      },
      {
        level: "info",
        msg: "the limits server is back: limits count over all replicas again",
        count: 1,
      },
    ]);
    expect(lines.join("")).not.toContain("canary");
  });

  test("counts in the database of the URL", async () => {
    for (const url of [`${server.url}/1`, `${server.url}/2`]) {
      const replica = opening(url);
      await replica.isUsed();
      expect(await replica.admit(1, { requestsPerMinute: 1 })).toMatchObject({ ok: true });
      expect(await replica.admit(1, { requestsPerMinute: 1 })).toMatchObject({ ok: false });
    }
  });

  describe("over TLS", () => {
    test("with a certificate of an unknown authority is refused", async () => {
      const replica = opening(`rediss://:canary@localhost:${tlsPort}`);
      await until("the problem is told", () => replica.problems.length > 0);
      expect(replica.problems).toEqual([
        "its certificate is not accepted (SELF_SIGNED_CERT_IN_CHAIN)",
      ]);
    });

    test.each(["rediss", "valkeys"])("is used with a trusted one (%s)", async (scheme) => {
      const replica = Bun.spawn(
        [process.execPath, slotHolder, `${scheme}://localhost:${tlsPort}/3`, "7", "2", "60000"],
        {
          stdout: "pipe",
          env: { ...process.env, NODE_EXTRA_CA_CERTS: join(certificates, "authority.pem") },
        },
      );
      const { value } = await replica.stdout.getReader().read();
      replica.kill();
      expect(new TextDecoder().decode(value)).toBe("holds\n");
      await using database = new ServerView(`${server.url}/3`);
      expect(await database.slots(7)).toBe(2);
      await database.send("FLUSHDB");
    });
  });
});
