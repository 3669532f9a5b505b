import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { judgeLimitsServer } from "../../../src/commands/doctor/server.ts";
import {
  inspectLimitsServer,
  type LimitsServerInspection,
} from "../../../src/limits/server/inspection.ts";
import { ServerProblem } from "../../../src/limits/server/serverProblem.ts";
import { fromSource, openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { configText } from "../../support/gateway/gatewayConfig.ts";
import { ServerView } from "../../support/limits/sharedLimiters.ts";
import { describeRedis } from "../../support/servers/describeServers.ts";
import { startRedis, type RedisServer } from "../../support/servers/redis.ts";

const url = "redis://cache:6379";

const healthy: LimitsServerInspection = {
  version: "Valkey 8.1.1",
  answerMs: 0.34,
  memory: { bytesMax: 0, policy: "noeviction" },
};

const full = { bytesMax: 256_000_000, policy: "allkeys-lru" };

describe("the verdict on a limits server", () => {
  test.each<[string, LimitsServerInspection | ServerProblem, boolean, readonly string[]]>([
    ["in order", healthy, true, [`${url} (Valkey 8.1.1, answers in 0.3 ms)`]],
    [
      "that may not be seen",
      { ...healthy, memory: undefined },
      true,
      [`${url} (Valkey 8.1.1, answers in 0.3 ms)`],
    ],
    [
      "that removes nothing",
      { ...healthy, memory: { ...full, policy: "noeviction" } },
      true,
      [url],
    ],
    ["without a limit of memory", { ...healthy, memory: { ...full, bytesMax: 0 } }, true, [url]],
    [
      "that may remove keys",
      { ...healthy, memory: full },
      true,
      [
        url,
        "warning: with full memory (256.0 MB) it removes keys (maxmemory-policy allkeys-lru), and a limit then begins anew: set maxmemory-policy noeviction",
      ],
    ],
    [
      "that is far away",
      { ...healthy, answerMs: 5.1 },
      false,
      [
        "answers in 5.1 ms): too slow, and without an answer within 10 ms each gateway allows only its share of the limits: use a server in the same network",
      ],
    ],
    [
      "that cannot be used",
      new ServerProblem("no connection"),
      false,
      [`${url} cannot be used, so each gateway allows only its share of the limits: no connection`],
    ],
  ])("%s", (_, found, ok, lines) => {
    expect(judgeLimitsServer(url, found)).toEqual({
      ok,
      lines: lines.map((line) => expect.stringContaining(line) as string),
    });
  });
});

describeRedis("a limits server", () => {
  let server: RedisServer;
  let view: ServerView;
  let cli: CliFolder;

  beforeAll(async () => {
    server = await startRedis();
    view = new ServerView(server.url);
    await view.send("CONFIG", "SET", "requirepass", "canary");
    cli = await openCliFolder(configFor("canary"), fromSource);
  });

  afterAll(async () => {
    await cli.remove();
    await view[Symbol.asyncDispose]();
    await server.close();
  });

  const urlWith = (password: string) => server.url.replace("//", `//:${password}@`);

  function configFor(password: string): string {
    return configText({
      providers: {},
      models: [],
      sections: {
        database: { url: "postgres://gate@127.0.0.1:1/tollgate" },
        limits: { redis: urlWith(password) },
      },
    });
  }

  test("is inspected as a gateway asks it", async () => {
    const found = await inspectLimitsServer(urlWith("canary"));
    expect(found).toEqual({
      version: expect.stringMatching(/^(?:Redis|Valkey) \d+\.\d+\.\d+$/),
      answerMs: expect.any(Number),
      memory: { bytesMax: 0, policy: "noeviction" },
    });
  });

  test("is inspected by a user who may only count", async () => {
    await view.send("ACL", "SETUSER", "gate", "on", ">canary", "~tollgate:*", "+@all", "-info");
    const found = await inspectLimitsServer(server.url.replace("//", "//gate:canary@"));
    expect(found).toMatchObject({
      version: "a version that this user may not see",
      memory: undefined,
    });
  });

  test("is examined by `doctor`", async () => {
    await Bun.write(cli.config, configFor("canary"));
    const { stdout } = await cli.run("doctor", "--json");
    expect(stdout).not.toContain("canary");
    const { checks } = JSON.parse(stdout) as { checks: readonly Record<string, unknown>[] };
    expect(checks.find(({ name }) => name === "limits server")).toEqual({
      name: "limits server",
      ok: true,
      message: expect.stringMatching(/^redis:\/\/127\.0\.0\.1:\d+ \(\w+ [\d.]+, answers in /),
    });
  });

  test("is asked by `check --live`, which fails if it refuses", async () => {
    await Bun.write(cli.config, configFor("canary"));
    const good = await cli.run("check", "--live", "--json");
    // There is no database at its URL.
    expect(good.stderr).toBe("error: the database failed: see above");
    expect(JSON.parse(good.stdout)).toMatchObject({ ok: false, limits_server: { ok: true } });

    await Bun.write(cli.config, configFor("wrong"));
    const bad = await cli.run("check", "--live");
    expect(bad.status).toBe(1);
    expect(bad.stdout).toContain("it refuses the user or the password of limits.redis");
    expect(bad.stderr).toContain("the limits server failed, ");
    expect(bad.stdout + bad.stderr).not.toContain("wrong");
  });

  test("that hangs is given up after a while", async () => {
    server.pause();
    expect(await inspectLimitsServer(urlWith("canary"))).toEqual(
      new ServerProblem("no answer to a connection"),
    );
    server.resume();
  });
});
