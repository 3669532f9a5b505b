import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { copyFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { localOrigin, parseListen } from "../../src/config/address.ts";
import { binaryPath } from "../support/binary/binary.ts";
import { openCliFolder, type CliFolder, type CommandRun } from "../support/binary/cli.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import { oneModel } from "../support/gateway/gatewayConfig.ts";
import { doneEvent, helloEvent, stopEvent, usageEvent } from "../support/provider/chatAnswers.ts";
import {
  piece,
  startProvider,
  streamEnd,
  streamHead,
} from "../support/provider/scriptedProvider.ts";

const certificates = new URL("../support/certificates/", import.meta.url).pathname;

let cli: CliFolder;
beforeAll(async () => {
  // Neither a home folder nor anything else; a proxy that does not exist must not be asked.
  const environment = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY"].map(
    (name) => `${name}=http://127.0.0.1:1`,
  );
  cli = await openCliFolder(null, ["env", "-i", ...environment, await binaryPath()]);
}, startTimeoutMs);
afterAll(() => cli.remove());

/** Runs the command with a config that has this `[server]`, and secrets that cannot be read. */
async function healthcheck(server: string, ...args: readonly string[]): Promise<CommandRun> {
  await writeFile(
    cli.config,
    `[server]\n${server}\n[database]\nurl = "\${NOT_SET}"\n[[providers]]\nid = "p"\nbase_url = "https://api.example.com/v1"\napi_key_file = "missing"\n`,
  );
  return await cli.run("healthcheck", "--config", "config.toml", ...args);
}

const listenOn = (address: string) => `listen = ${JSON.stringify(address)}`;
const tlsLines = 'tls_cert = "missing.pem"\ntls_key = "missing.key"';

const serves = (address: string): CommandRun => ({
  status: 0,
  stdout: `the gateway at ${address} serves`,
  stderr: "",
});
const fails = (problem: string): CommandRun => ({
  status: 1,
  stdout: "",
  stderr: `error: ${problem}`,
});

describe("tollgate healthcheck of a running gateway", () => {
  let goOn = Promise.withResolvers<void>();
  const provider = startProvider(async (peer) => {
    await peer.send(Buffer.concat([Buffer.from(streamHead), piece(helloEvent)]));
    await goOn.promise;
    for (const event of [stopEvent, usageEvent, doneEvent]) await peer.send(piece(event));
    await peer.send(streamEnd);
  });
  afterAll(() => provider.stop());

  async function start(server: Readonly<Record<string, string>>): Promise<GatewayProcess> {
    return await startGatewayProcess(oneModel(`http://127.0.0.1:${provider.port}/v1`, { server }), {
      prepare: async ({ folder }) => {
        // Its certificate is not for the address that the command asks.
        await copyFile(join(certificates, "otherHost.pem"), join(folder, "cert.pem"));
        await copyFile(join(certificates, "server.key"), join(folder, "key.pem"));
      },
    });
  }

  test("at every address of the machine, with a certificate for another name", async () => {
    const files = { tls_cert: "cert.pem", tls_key: "key.pem" };
    const gateway = await start({ listen: "0.0.0.0:0", ...files });
    try {
      const { port } = new URL(gateway.url);
      const listen = listenOn(`0.0.0.0:${port}`);
      expect(await healthcheck(`${listen}\n${tlsLines}`)).toEqual(
        serves(`https://127.0.0.1:${port}`),
      );
      const withoutTls = await healthcheck(listen);
      expect(withoutTls.status).toBe(1);
      expect(withoutTls.stderr).toContain("check server.listen and tls_cert");
    } finally {
      await gateway.close();
    }
  });

  test("on a unix socket, until it stops", async () => {
    const socket = join(cli.folder, "gateway.sock");
    const server = listenOn(`unix:${socket}`);
    expect(await healthcheck(server)).toEqual(
      fails(`nothing listens at ${socket}: the gateway does not run, or it is still starting`),
    );
    goOn = Promise.withResolvers();
    const gateway = await start({ listen: `unix:${socket}`, drain_delay: "2s" });
    try {
      expect(await healthcheck(server)).toEqual(serves(socket));
      const alice = { key: await gateway.key("alice", "100") };
      const url = "http://localhost";
      const open = fetch(`${url}/v1/chat/completions`, {
        unix: socket,
        method: "POST",
        headers: { authorization: `Bearer ${alice.key}` },
        body: JSON.stringify({
          model: "small",
          stream: true,
          messages: [{ role: "user", content: "hello" }],
        }),
      });
      const { body } = await open;
      gateway.signal("SIGTERM");
      await gateway.logged("it drains", ({ msg }) => msg === "draining");
      expect(await healthcheck(server)).toEqual(
        fails(`the gateway at ${socket} answers 503 draining: it is stopping`),
      );
      goOn.resolve();
      expect(await new Response(body).text()).toEndWith("data: [DONE]\n\n");
    } finally {
      goOn.resolve();
      await gateway.close();
    }
    expect((await healthcheck(server)).stderr).toContain("nothing listens");
  });
});

describe("tollgate healthcheck of a server that answers", () => {
  let answer: () => Response | Promise<Response>;
  const server = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => answer() });
  const address = `http://127.0.0.1:${server.port}`;
  const listen = listenOn(`127.0.0.1:${server.port}`);
  afterAll(() => server.stop(true));

  test.each([
    [
      "503 unavailable",
      () => Response.json({ status: "unavailable" }, { status: 503 }),
      `the gateway at ${address} answers 503 unavailable: it cannot use its database; see its log`,
    ],
    [
      "a page without end",
      () =>
        new Response(
          new ReadableStream({ pull: (body) => body.enqueue(Buffer.alloc(4096, "x")) }),
          { status: 404 },
        ),
      `the answer from ${address} has status 404: check that it is the gateway that listens there`,
    ],
    [
      "a redirect",
      () => Response.redirect("/elsewhere"),
      `the answer from ${address} has status 302: check that it is the gateway that listens there`,
    ],
  ])("%s: exits with 1 and says so", async (_, given, problem) => {
    answer = given;
    expect(await healthcheck(listen)).toEqual(fails(problem));
    const { status, stdout } = await healthcheck(listen, "--json");
    expect([status, JSON.parse(stdout)]).toEqual([1, { ok: false, address, problem }]);
  });

  test("200: prints the document", async () => {
    answer = () => Response.json({ status: "ok" });
    const { status, stdout } = await healthcheck(listen, "--json");
    expect([status, JSON.parse(stdout)]).toEqual([0, { ok: true, address, problem: null }]);
  });

  test("nothing in time: exits with 1", async () => {
    const never = Promise.withResolvers<Response>();
    answer = () => never.promise;
    expect(await healthcheck(listen, "--timeout", "50ms")).toEqual(
      fails(`the gateway at ${address} did not answer within 0.05 s`),
    );
    never.resolve(new Response());
  });
});

test.each([
  ["127.0.0.1:0", "server.listen has port 0"],
  ["here", "server.listen: must be"],
])("tollgate healthcheck with listen = %j says what is wrong", async (address, problem) => {
  const { status, stderr } = await healthcheck(listenOn(address));
  expect([status, stderr]).toEqual([1, expect.stringContaining(problem)]);
  // It reads, and writes nothing.
  expect(await readdir(cli.folder)).toEqual(["config.toml"]);
});

test.each(["0s", "61s", "soon"])("tollgate healthcheck refuses --timeout %s", async (duration) => {
  expect((await cli.run("healthcheck", "--timeout", duration)).status).toBe(2);
});

test.each([
  ["0.0.0.0:8080", "http://127.0.0.1:8080"],
  ["[::]:8080", "http://[::1]:8080"],
  ["[fd00::1]:8080", "http://[fd00::1]:8080"],
  ["gateway:8080", "http://gateway:8080"],
  ["unix:/run/gateway.sock", "http://localhost"],
])("who listens at %s is reached at %s", (listen, origin) => {
  expect(localOrigin(parseListen(listen) ?? { kind: "unix", path: "" })).toBe(origin);
});
