import type { Socket } from "bun";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "node:tls";
import { makeCertificate } from "../config/makeCertificate.ts";
import { doneEvent, helloEvent, stopEvent, usageEvent } from "../support/provider/chatAnswers.ts";
import { ask } from "../support/gateway/chatCalls.ts";
import { oneModel, type GatewayConfig } from "../support/gateway/gatewayConfig.ts";
import {
  startGatewayProcess,
  startTimeoutMs,
  type GatewayProcess,
} from "../support/binary/gatewayProcess.ts";
import {
  piece,
  startProvider,
  streamEnd,
  streamHead,
} from "../support/provider/scriptedProvider.ts";
import { several } from "../support/several.ts";
import { until } from "../support/until.ts";

/** Starts a stream, and ends it on demand. */
const provider = startProvider(async (peer) => {
  await peer.send(Buffer.concat([Buffer.from(streamHead), piece(helloEvent)]));
  await goOn.promise;
  for (const event of [stopEvent, usageEvent, doneEvent]) await peer.send(piece(event));
  await peer.send(streamEnd);
});
let goOn = Promise.withResolvers<void>();
afterAll(() => provider.stop());

/** Clients that connect at once: more than the 512 that Bun's server lets wait. */
const MANY = 1000;
const canManyWait =
  process.platform === "linux" &&
  Number(readFileSync("/proc/sys/net/core/somaxconn", "utf8")) >= MANY;

const certificates = new URL("../support/certificates/", import.meta.url).pathname;

const portOf = ({ url }: GatewayProcess): number => Number(new URL(url).port);

/** The connections to this port that are whole on the side of the server, accepted or not. */
function acceptedAt(port: number): number {
  const own = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = readFileSync("/proc/net/tcp", "utf8").split("\n");
  return rows.filter((row) => {
    const [, local, , state] = row.trim().split(/ +/);
    return local?.endsWith(own) === true && state === "01";
  }).length;
}

function configOf(listen: string, cert: string): GatewayConfig {
  const server = { listen, tls_cert: `${cert}.pem`, tls_key: `${cert}-key.pem` };
  return oneModel(`http://127.0.0.1:${provider.port}/v1`, { server });
}

describe.each(["tcp", "unix"])(
  "a gateway with a certificate on a %s address, at SIGHUP",
  (kind) => {
    let folder: string;
    let listen: string;
    let gateway: GatewayProcess;

    beforeEach(async () => {
      goOn = Promise.withResolvers();
      folder = await mkdtemp(join(tmpdir(), "tollgate-tls-"));
      listen = kind === "tcp" ? "127.0.0.1:0" : `unix:${join(folder, "gateway.sock")}`;
      gateway = await startGatewayProcess(configOf(listen, "first"), {
        prepare: async (cli) => {
          await copyFile(join(certificates, "localhost.pem"), join(cli.folder, "first.pem"));
          await copyFile(join(certificates, "server.key"), join(cli.folder, "first-key.pem"));
          makeCertificate(cli.folder, "second.pem", "second-key.pem");
        },
      });
      await expectShown("first.pem");
    }, startTimeoutMs);
    afterEach(async () => {
      goOn.resolve();
      await gateway.close();
      await rm(folder, { recursive: true });
    });

    const at = (name: string) => join(gateway.cli.folder, name);
    const fingerprintIn = async (name: string): Promise<string> =>
      new X509Certificate(await Bun.file(at(name)).text()).fingerprint256;

    const where = () =>
      kind === "tcp" ? { host: "127.0.0.1", port: portOf(gateway) } : { path: gateway.url };

    /** The certificate of a new connection, or undefined when there is none. */
    function shownFingerprint(): Promise<string | undefined> {
      const { promise, resolve } = Promise.withResolvers<string | undefined>();
      const socket = connect({ ...where(), rejectUnauthorized: false }, () => {
        resolve(socket.getPeerCertificate().fingerprint256);
        socket.destroy();
      });
      socket.on("error", () => resolve(undefined));
      return promise;
    }

    function post(key: string, stream: boolean): Promise<Response> {
      const isTcp = kind === "tcp";
      return fetch(`${isTcp ? gateway.url : "https://localhost"}/v1/chat/completions`, {
        method: "POST",
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify(ask({ stream })),
        tls: { rejectUnauthorized: false },
        ...(isTcp ? {} : { unix: gateway.url }),
      });
    }

    async function hangUp(outcome: string): Promise<void> {
      const since = gateway.log.length;
      gateway.signal("SIGHUP");
      await gateway.logged(outcome, ({ msg }) => msg === outcome, since);
    }

    async function expectShown(name: string): Promise<void> {
      const expected = await fingerprintIn(name);
      let shown: string | undefined;
      const deadlineMs = performance.now() + 20_000;
      while (shown !== expected && performance.now() < deadlineMs) shown = await shownFingerprint();
      expect(shown).toBe(expected);
    }

    test("shows the certificate that its files hold now, and an open stream continues to its end", async () => {
      const key = await gateway.key("alice", "100");
      const response = await post(key, true);
      const id = response.headers.get("x-request-id") ?? "";
      let text = "";
      const reading = (async () => {
        for await (const bytes of response.body ?? []) text += Buffer.from(bytes).toString();
      })();
      await until("the stream has begun", () => text.includes("Hello"));

      await copyFile(at("second.pem"), at("first.pem"));
      await copyFile(at("second-key.pem"), at("first-key.pem"));
      await hangUp("config reloaded");
      await expectShown("second.pem");
      goOn.resolve();
      await reading;
      expect(text).toEndWith("data: [DONE]\n\n");
      expect(await gateway.request(id)).toMatchObject({ status: "done", prompt_tokens: 20 });

      // And once more, to a certificate of the key that it began with.
      await copyFile(join(certificates, "selfSigned.pem"), at("first.pem"));
      await copyFile(join(certificates, "server.key"), at("first-key.pem"));
      await hangUp("config reloaded");
      await expectShown("first.pem");
      expect((await post(key, true)).status).toBe(200);
    }, 60_000);

    test("answers what has arrived when the certificate changes", async () => {
      const { promise: connected, resolve } = Promise.withResolvers<void>();
      const socket = connect({ ...where(), rejectUnauthorized: false }, resolve);
      let text = "";
      socket.on("data", (bytes: Buffer) => (text += bytes.toString()));
      await connected;
      await copyFile(at("second.pem"), at("first.pem"));
      await copyFile(at("second-key.pem"), at("first-key.pem"));
      // While the process stands still, the system takes connections and bytes for it.
      gateway.signal("SIGSTOP");
      const fresh = shownFingerprint();
      socket.write("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
      gateway.signal("SIGHUP");
      await Bun.sleep(200);
      gateway.signal("SIGCONT");
      await until("the answer", () => text.includes('"status":"ok"'));
      expect(await fresh).toBeString();
      await expectShown("second.pem");
      socket.destroy();
    });

    test.skipIf(!canManyWait)("lets a thousand clients wait, before and after", async () => {
      await expectManyWait();
      await copyFile(at("second.pem"), at("first.pem"));
      await copyFile(at("second-key.pem"), at("first-key.pem"));
      await hangUp("config reloaded");
      await expectShown("second.pem");
      await expectManyWait();
    });

    /** While the process stands still, the system connects those who can wait, and no others. */
    async function expectManyWait(): Promise<void> {
      const connected: Socket[] = [];
      const socket = {
        data() {},
        error() {},
        open(opened: Socket): void {
          connected.push(opened);
          // The system accepts a client once it has sent something.
          opened.write("GET ");
        },
      };
      const dial =
        kind === "unix"
          ? () => Bun.connect({ unix: gateway.url, socket })
          : () => Bun.connect({ hostname: "127.0.0.1", port: portOf(gateway), socket });
      gateway.signal("SIGSTOP");
      try {
        await Promise.all(several(MANY, dial));
        // A client over TCP is connected before the system has a place for it.
        if (kind === "tcp") {
          await until("all have a place", () => acceptedAt(portOf(gateway)) >= MANY);
        }
      } finally {
        gateway.signal("SIGCONT");
        for (const opened of connected) opened.terminate();
      }
    }

    test("leaves open connections alone when the certificate is the same", async () => {
      const { promise: connected, resolve } = Promise.withResolvers<void>();
      const socket = connect({ ...where(), rejectUnauthorized: false }, resolve);
      let text = "";
      socket.on("data", (bytes: Buffer) => (text += bytes.toString()));
      await connected;
      const health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
      socket.write(health);
      await until("the first answer", () => text.includes('"status":"ok"'));
      await hangUp("config reloaded");
      text = "";
      socket.write(health);
      await until("the second answer", () => text.includes('"status":"ok"'));
      socket.destroy();
    });

    test.each([
      ["is damaged", async () => void (await Bun.write(at("first.pem"), "no certificate"))],
      ["is missing", () => rm(at("first.pem"))],
      ["is not its key's", async () => copyFile(at("second.pem"), at("first.pem"))],
      [
        "is followed by a damaged one",
        async () => {
          const second = await Bun.file(at("second.pem")).text();
          await Bun.write(at("first.pem"), `${second}${second.slice(0, 300)}`);
          await copyFile(at("second-key.pem"), at("first-key.pem"));
        },
      ],
    ])("keeps the old certificate when the new one %s", async (_, spoil) => {
      await copyFile(at("first.pem"), at("kept.pem"));
      await spoil();
      await hangUp("config rejected, the old config stays in force");
      await expectShown("kept.pem");
      // And with a whole one once it is there.
      await copyFile(at("second.pem"), at("first.pem"));
      await copyFile(at("second-key.pem"), at("first-key.pem"));
      await hangUp("config reloaded");
      await expectShown("second.pem");
    });

    test("uses the files that the config names now, though the old ones are missing", async () => {
      await gateway.configure(configOf(listen, "second"));
      await rm(at("first.pem"));
      await rm(at("first-key.pem"));
      await hangUp("config reloaded");
      await expectShown("second.pem");
    });
  },
);
