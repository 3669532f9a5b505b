import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readlinkSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { binaryPath } from "../support/binary/binary.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { listenersAt, parentOf, servingProcesses } from "../support/binary/servingProcesses.ts";
import { ask, call, expectRefusal, openCall, tooOften } from "../support/gateway/chatCalls.ts";
import {
  oneModel,
  prices,
  type GatewayConfig,
  type Section,
} from "../support/gateway/gatewayConfig.ts";
import { scrape } from "../support/gateway/scrape.ts";
import { unknownCode } from "../support/gateway/voucherCalls.ts";
import {
  answered,
  doneEvent,
  helloEvent,
  stopEvent,
  usageEvent,
} from "../support/provider/chatAnswers.ts";
import {
  piece,
  refusal,
  startProvider,
  streamEnd,
  streamHead,
  type ScriptedProvider,
} from "../support/provider/scriptedProvider.ts";
import { several } from "../support/several.ts";
import { testSqlite } from "../support/testedEngines.ts";
import { until, untilAsync } from "../support/until.ts";

const COUNT = 3;

/** A connection of its own, so that the system gives the request to any process. */
const apart = { connection: "close" };

const post = (gateway: GatewayProcess, key: string, changes: object = {}) =>
  call(gateway, { key }, { body: ask(changes), headers: apart });

/** A stream on a connection of its own. */
const openApart = (gateway: Pick<GatewayProcess, "url">, key: string) =>
  openCall(gateway, { key }, { body: ask({ stream: true }), headers: apart });

describe("several serving processes", () => {
  let provider: ScriptedProvider;
  let failing: ScriptedProvider;
  let goOn: () => void;
  let gateway: GatewayProcess;
  let key: string;

  const configOf = (limits: Section = {}): GatewayConfig => {
    const base = oneModel(`http://127.0.0.1:${provider.port}/v1`, {
      server: { processes: COUNT },
      metrics: { listen: "127.0.0.1:0" },
      limits: { requests_per_minute: 0, concurrent_requests: 0, ...limits },
    });
    return {
      ...base,
      providers: {
        ...base.providers,
        failing: `http://127.0.0.1:${failing.port}/v1`,
        rated: {
          base_url: `http://127.0.0.1:${provider.port}/v1`,
          requests_per_minute: 10,
          accounts: ["a", "b"].map((id) => ({ id, api_key: `sk-${id}` })),
        },
      },
      models: [
        ...base.models,
        { id: "other", routes: [{ provider: "failing" }] },
        { id: "rated", routes: [{ provider: "rated" }] },
        {
          id: "equal",
          routes: several(4, (at) => ({ provider: "local", model: `m${at}`, priority: 1 })),
        },
      ],
    };
  };

  const reload = async (limits: Section): Promise<void> => {
    await gateway.configure(configOf(limits));
    const since = gateway.log.length;
    gateway.signal("SIGHUP");
    await gateway.logged("it reloads", ({ msg }) => msg === "config reloaded", since);
  };

  beforeAll(async () => {
    await binaryPath();
    let gate = Promise.withResolvers<void>();
    goOn = () => {
      gate.resolve();
      gate = Promise.withResolvers<void>();
    };
    provider = startProvider(async (peer, request) => {
      if (request.json["stream"] !== true) return await answered()(peer, request);
      await peer.send(Buffer.concat([Buffer.from(streamHead), piece(helloEvent)]));
      await gate.promise;
      await peer.send(piece(stopEvent + usageEvent + doneEvent));
      await peer.send(streamEnd);
    });
    failing = startProvider(refusal(503));
    gateway = await startGatewayProcess(configOf());
    key = await gateway.key("alice", "1000");
  }, startTimeoutMs);

  afterAll(async () => {
    goOn();
    await gateway.close();
    provider.stop();
    failing.stop();
  });

  test("are children of one process, and serve at one port", async () => {
    expect(servingProcesses(gateway)).toHaveLength(COUNT);
    const replies = await Promise.all(several(30, () => post(gateway, key)));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    expect(gateway.log.filter(({ msg }) => msg === "listening")).toHaveLength(1);
  });

  test("take the same one of equal routes for a session", async () => {
    const asked = async (user: string): Promise<number> => {
      const since = provider.requests.length;
      await Promise.all(several(12, () => post(gateway, key, { model: "equal", user })));
      return new Set(provider.requests.slice(since).map(({ json }) => json["model"])).size;
    };
    for (const user of ["one", "two", "three"]) expect(await asked(user)).toBe(1);
  });

  test("share memory that a full folder cannot take away", () => {
    const open = `/proc/${gateway.pid}/fd`;
    const shared = readdirSync(open).find((descriptor) =>
      readlinkSync(join(open, descriptor)).includes(`/tollgate-${gateway.pid}-`),
    );
    const { size, blocks } = statSync(join(open, String(shared)));
    expect(size).toBeGreaterThan(0);
    expect(blocks * 512).toBeGreaterThanOrEqual(size);
  });

  test("count the requests of a key together", async () => {
    await reload({ requests_per_minute: 20 });
    const limited = await gateway.key("bob", "1000");
    const replies = await Promise.all(several(60, () => post(gateway, limited)));
    const refused = replies.filter(({ status }) => status !== 200);
    expect(refused).toHaveLength(40);
    for (const reply of refused) expectRefusal(reply, tooOften);
    await reload({});
  });

  test("count the requests to each account of a provider together", async () => {
    const replies = await Promise.all(several(60, () => post(gateway, key, { model: "rated" })));
    const refused = replies.filter(({ status }) => status !== 200);
    expect(refused).toHaveLength(40);
    for (const reply of refused) expectRefusal(reply, tooOften);
  });

  test("count the open requests of a key together, and those of a killed process no more", async () => {
    await reload({ concurrent_requests: 12 });
    const limited = await gateway.key("carol", "1000");
    const streams = await Promise.all(
      // Not audited: those of the killed process have no record.
      several(40, () => openApart({ url: gateway.url }, limited)),
    );
    const open = streams.filter(({ status }) => status === 200);
    expect(open).toHaveLength(12);
    const [victim] = servingProcesses(gateway);
    process.kill(Number(victim), "SIGKILL");
    await gateway.logged("a process ended", ({ event }) => event === "process_ended");
    await until("it runs again", () => servingProcesses(gateway).length === COUNT);
    goOn();
    await until("all streams end", () => open.every(({ isOver }) => isOver));
    const again = await Promise.all(several(12, () => post(gateway, limited)));
    expect(new Set(again.map(({ status }) => status))).toEqual(new Set([200]));
    await reload({});
  });

  test("give the money that one has reserved to another that needs it", async () => {
    const balance = 250_000_000n;
    const poor = await gateway.key("dave", "0.25");
    // Each request holds four fifths of the money.
    const bound = Number((balance * 4n) / 5n / BigInt(prices.output));
    for (let time = 0; time < 12; time += 1) {
      const reply = await post(gateway, poor, { max_tokens: bound });
      expect(reply.status, reply.text).toBe(200);
    }
    // At once they wait for each other.
    const replies = await Promise.all(several(6, () => post(gateway, poor, { max_tokens: bound })));
    for (const reply of replies) expect(reply.status, reply.text).toBe(200);
  });

  test("do not accept a key that a command has revoked", async () => {
    const revoked = await gateway.key("erin", "10");
    const replies = await Promise.all(several(12, () => post(gateway, revoked)));
    expect(new Set(replies.map(({ status }) => status))).toEqual(new Set([200]));
    const [row] = (await gateway.cli.json("keys", "list", "--account", "erin")) as { id: string }[];
    await gateway.cli.json("keys", "revoke", String(row?.id));
    const after = await Promise.all(several(12, () => post(gateway, revoked)));
    expect(new Set(after.map(({ status }) => status))).toEqual(new Set([401]));
  });

  test("count wrong voucher codes together", async () => {
    const guesser = await gateway.key("frank", "10");
    const guess = async () => {
      const given = { path: "/v1/vouchers/redeem", body: { code: unknownCode() }, headers: apart };
      return (await call(gateway, { key: guesser }, given)).status;
    };
    // A process hears of the guesses at others a moment later.
    let guesses = 0;
    while ((await guess()) === 404) guesses += 1;
    expect(guesses).toBeWithin(10, 10 + COUNT);
    const isRefused = async () =>
      (await Promise.all(several(8, guess))).every((one) => one === 429);
    await untilAsync("all processes refuse", isRefused);
  });

  test("open a circuit breaker together", async () => {
    const keys = await Promise.all(["gina", "hank"].map((name) => gateway.key(name, "10")));
    for (let time = 0; time < 12; time += 1)
      await post(gateway, String(keys[time % 2]), { model: "other" });
    const before = failing.requests.length;
    await Promise.all(several(30, (at) => post(gateway, String(keys[at % 2]), { model: "other" })));
    // The last resort asks a few times in each process, whatever the breaker says.
    expect(failing.requests.length - before).toBeLessThanOrEqual(5 * COUNT);
    const state = (await metrics()).value("tollgate_breaker_state", {
      provider: "failing",
      model: "other",
    });
    expect(state).toBe(2);
  });

  test("show their metrics as those of one gateway", async () => {
    const done = { endpoint: "chat", model: "small", outcome: "done" };
    const requests = async () => (await metrics()).value("tollgate_requests_total", done);
    const before = await requests();
    const replies = await Promise.all(several(30, () => post(gateway, key)));
    for (const { status, text } of replies)
      expect([status, status === 200 ? "" : text]).toEqual([200, ""]);
    expect((await requests()) - before).toBe(30);
    // A counter that falls is a restart of the gateway for Prometheus.
    const [victim] = servingProcesses(gateway);
    const since = gateway.log.length;
    process.kill(Number(victim), "SIGKILL");
    await gateway.logged("it ended", ({ event }) => event === "process_ended", since);
    expect((await requests()) - before).toBe(30);
    await until("it runs again", () => servingProcesses(gateway).length === COUNT);
    await post(gateway, key);
    await untilAsync("all are counted", async () => (await requests()) - before === 31);
  });

  testSqlite("show no figure of what this gateway does not have", async () => {
    const { samples } = await metrics();
    const foreign = samples.filter(({ name }) => /_replicas?_|_limits_server_|_tls_/.test(name));
    expect(foreign).toEqual([]);
  });

  const metrics = async () => {
    const line = gateway.log.findLast(({ msg }) => msg === "listening for metrics");
    return await scrape(`${String(line?.["address"])}/metrics`);
  };

  test("count the requests of a key as before when all of them were started again", async () => {
    const bob = await gateway.key("bob", "1000", "--rpm", "600");
    const statuses = async (count: number): Promise<ReadonlySet<number>> =>
      new Set(
        (await Promise.all(several(count, () => post(gateway, bob)))).map((one) => one.status),
      );
    for (let round = 0; round < 11; round += 1) expect(await statuses(50)).toEqual(new Set([200]));
    const since = gateway.log.length;
    const before = servingProcesses(gateway);
    for (const pid of before) process.kill(pid, "SIGKILL");
    const ends = () => gateway.log.slice(since).filter(({ event }) => event === "process_ended");
    await until("all have ended", () => ends().length === COUNT);
    const port = Number(new URL(gateway.url).port);
    await until("others listen", () => listenersAt(port) === COUNT);
    expect(await statuses(40)).toEqual(new Set([200]));
    const more = await Promise.all(several(150, () => post(gateway, bob)));
    expect(more.filter(({ status }) => status === 429).length).toBeGreaterThan(0);
  });

  test("end with the main process", async () => {
    const pids = servingProcesses(gateway);
    await gateway.kill();
    await until("they have ended", () => pids.every((pid) => parentOf(pid) === undefined));
    await gateway.start();
    expect((await post(gateway, key)).status).toBe(200);
  });

  test("let open streams finish at a stop", async () => {
    const streams = await Promise.all(several(9, () => openApart(gateway, key)));
    await Promise.all(streams.map((stream) => stream.seen("Hello")));
    gateway.signal("SIGTERM");
    const isRefusing = () =>
      gateway.log.filter(({ msg }) => msg === "refusing new requests").length >= COUNT;
    await until("all refuse", isRefusing);
    goOn();
    await until("all streams end", () => streams.every(({ isOver }) => isOver));
    for (const stream of streams) expect(stream.text).toEndWith("data: [DONE]\n\n");
    expect(await gateway.ended).toBe(0);
    await untilAsync("they are gone", () =>
      Promise.resolve(servingProcesses(gateway).length === 0),
    );
    await gateway.start();
  });
});

test("a port of another program is told as ever", async () => {
  const taken = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response("") });
  const listen = `127.0.0.1:${taken.port}`;
  const config = oneModel("http://127.0.0.1:9/v1", { server: { listen, processes: 2 } });
  try {
    const failure = await startGatewayProcess(config).then(() => "", String);
    expect(failure).toContain(
      `cannot listen on ${listen}: the address is in use: stop the other program, or use another address`,
    );
  } finally {
    await taken.stop(true);
  }
});

test(
  "a signal to all processes during the start is a stop",
  async () => {
    const config = oneModel("http://127.0.0.1:9/v1", { server: { processes: 8 } });
    const gateway = await startGatewayProcess(config);
    try {
      await gateway.stop();
      const command = [await binaryPath(), "serve", "--config", gateway.cli.config];
      const child = Bun.spawn(command, { detached: true, stdio: ["ignore", "ignore", "pipe"] });
      await until("some processes start", () => servingProcesses(child).length > 0);
      process.kill(-child.pid, "SIGTERM");
      expect([await child.exited, await child.stderr.text()]).toEqual([0, ""]);
    } finally {
      await gateway.close();
    }
  },
  startTimeoutMs,
);

describe("a process that is killed", () => {
  const two = oneModel("http://127.0.0.1:9/v1", { server: { processes: 2 } });

  const killOne = async (gateway: GatewayProcess): Promise<void> => {
    const [victim] = servingProcesses(gateway);
    process.kill(Number(victim), "SIGKILL");
    await gateway.logged("a process ended", ({ event }) => event === "process_ended");
  };

  test(
    "is started again from the executable of the main process, which is gone",
    async () => {
      const copied = ["sh", "-c", 'cp "$0" ./copy && exec ./copy "$@"'];
      const gateway = await startGatewayProcess(two, { launcher: copied });
      try {
        rmSync(join(gateway.cli.folder, "copy"));
        const before = servingProcesses(gateway);
        await killOne(gateway);
        await until("another one runs", () =>
          servingProcesses(gateway).some((pid) => !before.includes(pid)),
        );
        await gateway.expectAuditPasses();
        expect(gateway.log.filter(({ event }) => event === "process_ended")).toHaveLength(1);
      } finally {
        await gateway.close();
      }
    },
    startTimeoutMs,
  );

  testSqlite(
    "does not keep the gateway from stopping while the database cannot be written",
    async () => {
      const gateway = await startGatewayProcess(two);
      try {
        using other = new Database(gateway.cli.database);
        other.run("BEGIN IMMEDIATE");
        await killOne(gateway);
        gateway.signal("SIGTERM");
        expect(await gateway.ended).toBe(0);
        other.run("ROLLBACK");
      } finally {
        await gateway.close();
      }
    },
    startTimeoutMs,
  );
});
