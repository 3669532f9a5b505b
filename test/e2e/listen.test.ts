import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFile, exists, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { usual } from "../support/provider/chatAnswers.ts";
import { ask } from "../support/gateway/chatCalls.ts";
import { configText, oneModel } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { testAuthority } from "../support/provider/rawServer.ts";
import { startProvider } from "../support/provider/scriptedProvider.ts";

const provider = startProvider(usual);
const providerUrl = `http://127.0.0.1:${provider.port}/v1`;
const certificates = new URL("../support/certificates/", import.meta.url).pathname;

afterAll(() => provider.stop());

function chatRequest(key: string): RequestInit {
  return {
    method: "POST",
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify(ask()),
  };
}

describe("a gateway on a unix socket", () => {
  let folder: string;
  let socket: string;
  let gateway: GatewayProcess;
  const config = () => oneModel(providerUrl, { server: { listen: `unix:${socket}` } });

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-socket-"));
    socket = join(folder, "gateway.sock");
    gateway = await startGatewayProcess(config());
  }, startTimeoutMs);

  test("logs its address at the start", async () => {
    const sqlite = new Database(":memory:").query("SELECT sqlite_version() AS sqlite").get();
    expect(gateway.log.find(({ msg }) => msg === "listening")).toMatchObject({
      version: (await gateway.cli.run("--version")).stdout,
      bun: Bun.version,
      ...(sqlite as { sqlite: string }),
    });
  });
  afterAll(async () => {
    await gateway.close();
    await rm(folder, { recursive: true, force: true });
  });

  test("answers there, for its owner and group only", async () => {
    expect(gateway.url).toBe(socket);
    const key = await gateway.key("alice", "1");
    const answer = await fetch("http://localhost/v1/chat/completions", {
      ...chatRequest(key),
      unix: socket,
    });
    expect(answer.status).toBe(200);
    expect(((await stat(socket)).mode & 0o777).toString(8)).toBe("660");
  });

  test("finds the path with a Host of any length", async () => {
    const key = await gateway.key("alice", "1");
    const headers = { authorization: `Bearer ${key}` };
    for (const host of ["x", "gw", "a.b", "localhost"]) {
      const statusOf = async (path: string): Promise<number> =>
        (await fetch(`http://${host}${path}`, { headers, unix: socket })).status;
      expect([host, await statusOf("/v1/models/small")]).toEqual([host, 200]);
      expect([host, await statusOf("/ab/v1/account")]).toEqual([host, 404]);
    }
  });

  test("is not replaced by another gateway on the same socket", async () => {
    const path = join(folder, "other.toml");
    await Bun.write(
      path,
      configText({
        ...config(),
        sections: { ...config().sections, database: { path: "other.db" } },
      }),
    );
    const { status, stderr } = await gateway.cli.run("serve", "--config", path);
    expect(status).toBe(1);
    expect(stderr).toContain(`cannot listen on ${socket}: the address is in use`);
    expect((await fetch("http://localhost/healthz", { unix: socket })).status).toBe(200);
  });

  test("never removes a file that is no socket", async () => {
    const precious = join(folder, "precious.txt");
    await Bun.write(precious, "of value");
    const path = join(folder, "mistaken.toml");
    const sections = { server: { listen: `unix:${precious}` }, database: { path: "other.db" } };
    await Bun.write(path, configText(oneModel(providerUrl, sections)));
    const { status, stderr } = await gateway.cli.run("serve", "--config", path);
    expect(status).toBe(1);
    expect(stderr).toContain(`cannot listen on ${precious}`);
    expect(await Bun.file(precious).text()).toBe("of value");
  });

  test("starts again over a socket that kill -9 left", async () => {
    await gateway.kill();
    expect(await exists(socket)).toBe(true);
    await gateway.start();
    expect((await fetch("http://localhost/healthz", { unix: socket })).status).toBe(200);
  });
});

describe("a gateway with a certificate", () => {
  let gateway: GatewayProcess;

  beforeAll(async () => {
    const sections = {
      server: { listen: "127.0.0.1:0", tls_cert: "cert.pem", tls_key: "key.pem" },
    };
    gateway = await startGatewayProcess(oneModel(providerUrl, sections), {
      prepare: async ({ folder }) => {
        await copyFile(join(certificates, "localhost.pem"), join(folder, "cert.pem"));
        await copyFile(join(certificates, "server.key"), join(folder, "key.pem"));
      },
    });
  }, startTimeoutMs);
  afterAll(() => gateway.close());

  const address = () => gateway.url.replace("127.0.0.1", "localhost");

  test("serves HTTPS to those who trust it", async () => {
    expect(gateway.url).toStartWith("https://");
    const key = await gateway.key("alice", "1");
    const answer = await fetch(`${address()}/v1/chat/completions`, {
      ...chatRequest(key),
      tls: { ca: testAuthority() },
    });
    expect(answer.status).toBe(200);
  });

  test.each(["x", "gw", "gw:1", "localhost"])("finds the path with the Host %j", async (host) => {
    const key = await gateway.key("alice", "1");
    const headers = { authorization: `Bearer ${key}`, host };
    const statusOf = async (path: string): Promise<number> => {
      const tls = { ca: testAuthority() };
      return (await fetch(address() + path, { headers, tls })).status;
    };
    expect(await statusOf("/v1/models/small")).toBe(200);
    expect(await statusOf("/ab/v1/account")).toBe(404);
  });

  test("is not trusted by others, and does not speak plain HTTP", async () => {
    const untrusted = fetch(`${address()}/healthz`).then(
      ({ status }) => status,
      (error: unknown) => (error as { code?: string }).code,
    );
    expect(await untrusted).toBe("UNABLE_TO_VERIFY_LEAF_SIGNATURE");
    const plain = fetch(`${address().replace("https:", "http:")}/healthz`).then(
      ({ status }) => status,
      () => "no answer",
    );
    expect(await plain).toBe("no answer");
  });
});
