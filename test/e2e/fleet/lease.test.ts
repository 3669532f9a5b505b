import { afterAll, beforeAll, expect, test } from "bun:test";
import { readDatabaseAt } from "../../support/auditor/databaseRows.ts";
import { startFleet, type Fleet } from "../../support/fleet/fleet.ts";
import { ask, call, chat, openCall } from "../../support/gateway/chatCalls.ts";
import { oneModel } from "../../support/gateway/gatewayConfig.ts";
import {
  completion,
  doneEvent,
  helloEvent,
  stopEvent,
  usageOnly,
} from "../../support/provider/chatAnswers.ts";
import { created, delta, ended, terminal } from "../../support/provider/responsesAnswers.ts";
import {
  json,
  piece,
  raw,
  startProvider,
  streamEnd,
  streamHead,
} from "../../support/provider/scriptedProvider.ts";
import { describePostgres } from "../../support/servers/describeServers.ts";
import { freshDatabase, type TestDatabase } from "../../support/servers/postgres.ts";
import { until, untilAsync } from "../../support/until.ts";

const usage = { prompt_tokens: 5, completion_tokens: 7 };
/** A replica is ended after 15 s of silence, and others look each 2 s. */
const endedWithinMs = 25_000;
const timeoutMs = 90_000;

describePostgres("a replica of two", () => {
  const provider = startProvider();
  let database: TestDatabase;
  let fleet: Fleet;
  let key: string;
  beforeAll(async () => {
    database = await freshDatabase();
    fleet = await startFleet({
      databaseUrl: database.url,
      serverPort: Number(new URL(database.url).port),
      replicas: 2,
      // An answer in JSON begins with its status, however long it takes.
      config: oneModel(`http://127.0.0.1:${provider.port}/v1`, {
        server: { json_keepalive: false },
      }),
    });
    key = await fleet.key("alice", "100");
  }, timeoutMs);
  afterAll(async () => {
    await fleet[Symbol.asyncDispose]();
    provider.stop();
    await database.drop();
  });

  const replicaAt = (at: number) => {
    const replica = fleet.replicas[at];
    if (replica === undefined) throw new Error("the fleet has two replicas");
    return replica;
  };
  const balance = async () =>
    (await readDatabaseAt({ url: database.url })).accounts.find(({ name }) => name === "alice")
      ?.balance;
  const serves = async (url: string) => {
    provider.answer = json(completion({ usage }));
    return (await chat({ url }, { key })).status === 200;
  };

  /** What a client is told in each interface, and in which form. */
  const told = { message: "service temporarily unavailable" };
  const interrupted = [
    ["/v1/chat/completions", { error: { ...told, type: "provider_error" } }],
    ["/v1/responses", { error: { ...told, type: "provider_error" } }],
    ["/v1/messages", { type: "error", error: { ...told, type: "api_error" } }],
  ] as const;
  const bodyFor = (path: string, stream: boolean) =>
    path === "/v1/responses"
      ? { model: "small", input: "hello", stream }
      : ask({ stream, max_tokens: 50 });

  test(
    "that stands still for longer than its lease ends its answers with an error that says who failed, and charges nothing",
    async () => {
      const [still, other] = [replicaAt(0), replicaAt(1)];
      const goOn = Promise.withResolvers<void>();
      provider.answer = async (peer, request) => {
        const isResponse = request.requestLine.includes("/responses");
        const [first, rest] = isResponse
          ? [created() + delta, terminal()]
          : [helloEvent, stopEvent + usageOnly(usage) + doneEvent];
        if (request.json["stream"] === true) await raw(streamHead, piece(first))(peer, request);
        await goOn.promise;
        if (request.json["stream"] === true) await raw(piece(rest), streamEnd)(peer, request);
        else await json(isResponse ? ended() : completion({ usage }))(peer, request);
      };
      const before = await balance();
      const { url } = still.process;
      const streams = await Promise.all(
        interrupted.map(([path]) =>
          openCall({ url }, { key }, { path, body: bodyFor(path, true) }),
        ),
      );
      for (const stream of streams) await stream.seen("Hel");
      const wholes = interrupted.map(([path]) =>
        call({ url }, { key }, { path, body: bodyFor(path, false) }),
      );
      await until("all are asked", () => provider.requests.length >= 2 * interrupted.length);
      const since = other.process.log.length;
      still.process.signal("SIGSTOP");
      await until(
        "the other replica has ended it",
        () =>
          other.process.log
            .slice(since)
            .some(({ msg }) => msg.startsWith("another replica sent no heartbeat")),
        endedWithinMs,
      );
      still.process.signal("SIGCONT");
      goOn.resolve();
      for (const [at, [path, error]] of interrupted.entries()) {
        const stream = streams[at];
        await until("the stream has ended", () => stream?.isOver === true, endedWithinMs);
        const last = stream?.text.split(/^data: /m).findLast((data) => data.startsWith("{"));
        expect([path, JSON.parse(last ?? "")]).toMatchObject([path, error]);
        const reply = await wholes[at];
        expect([path, reply?.status, reply?.body]).toMatchObject([path, 502, error]);
      }
      expect(await balance()).toBe(before);
      await untilAsync("it serves again", () => serves(url), endedWithinMs);
      expect(await fleet.problems()).toEqual([]);
    },
    timeoutMs,
  );

  test(
    "that is cut off from the server says so after ten seconds, and recovers by itself",
    async () => {
      const { process, proxy } = replicaAt(1);
      expect(await serves(process.url)).toBe(true);
      const health = async () => (await fetch(`${process.url}/healthz`)).status;
      expect(await health()).toBe(200);
      proxy.hang();
      await untilAsync("it is not healthy", async () => (await health()) === 503, endedWithinMs);
      expect((await chat({ url: process.url }, { key })).status).toBe(502);
      proxy.reset();
      proxy.pass();
      await untilAsync("it is healthy", async () => (await health()) === 200, endedWithinMs);
      await untilAsync("it serves again", () => serves(process.url), endedWithinMs);
      expect(await fleet.problems()).toEqual([]);
    },
    timeoutMs,
  );

  test(
    "obeys a command within a second, whichever it is",
    async () => {
      provider.answer = json(completion({ usage }));
      const { cli, replicas } = fleet;
      const times: number[] = [];
      const obeyed = async (what: string, isSo: (url: string) => Promise<boolean>) => {
        const startedMs = performance.now();
        await Promise.all(
          replicas.map(({ process }) => untilAsync(what, () => isSo(process.url), 5000)),
        );
        times.push(performance.now() - startedMs);
      };
      const statusOf = async (url: string, of: string) => (await chat({ url }, { key: of })).status;

      const fresh = (await cli.json("keys", "create", "--account", "bob")) as {
        id: string;
        key: string;
      };
      await obeyed("a new key works", async (url) => (await statusOf(url, fresh.key)) === 402);
      await cli.json("balance", "credit", "bob", "1");
      await obeyed("a credit counts", async (url) => (await statusOf(url, fresh.key)) === 200);
      await cli.json("keys", "set", fresh.id, "--budget", "0.000001");
      await obeyed("a setting counts", async (url) => (await statusOf(url, fresh.key)) === 402);
      await cli.json("keys", "set", fresh.id, "--budget", "none");
      await obeyed("so does its end", async (url) => (await statusOf(url, fresh.key)) === 200);
      await cli.json("accounts", "disable", "bob");
      await obeyed("a disabled account", async (url) => (await statusOf(url, fresh.key)) === 401);
      await cli.json("accounts", "enable", "bob");
      await obeyed("an enabled one", async (url) => (await statusOf(url, fresh.key)) === 200);
      await cli.json("keys", "revoke", fresh.id);
      await obeyed("a revoke counts", async (url) => (await statusOf(url, fresh.key)) === 401);
      // A busy machine may delay some of them.
      expect(times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]).toBeLessThan(1000);
      expect(await fleet.problems()).toEqual([]);
    },
    timeoutMs,
  );
});
