import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmod } from "node:fs/promises";
import { openSilentPort, type SilentPort } from "../../support/provider/silentPort.ts";
import { openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { examine, type Examination } from "../../support/binary/doctor.ts";
import { configText } from "../../support/gateway/gatewayConfig.ts";
import { startRawServer, type RawPeer, type RawServer } from "../../support/provider/rawServer.ts";

const secrets = ["sk-upstream-0123456789", "header-0123456789", "proxy-password-0123456789"];
const [apiKey, headerValue, proxyPassword] = secrets;
const authority = new URL("../../support/certificates/authority.pem", import.meta.url).pathname;

/** A proxy that refuses to open a tunnel. */
const refuseTunnel = async (peer: RawPeer): Promise<void> => {
  await peer.request();
  await peer.send("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
};

const servers: RawServer[] = [];
let silentPort: SilentPort;
let cli: CliFolder;
let found: Examination;
let tookMs: number;

function serve(...options: Parameters<typeof startRawServer>): RawServer {
  const server = startRawServer(...options);
  servers.push(server);
  return server;
}

beforeAll(async () => {
  const silent = () => {};
  const plain = serve(silent);
  const secure = serve(silent, { certificate: "localhost" });
  const expired = serve(silent, { certificate: "expired" });
  const other = serve(silent, { certificate: "otherHost" });
  const speechless = serve((peer) => peer.send("no TLS\n"));
  const proxy = serve(refuseTunnel);
  const closed = startRawServer(silent);
  closed.stop();
  silentPort = await openSilentPort();
  const https = ({ port }: RawServer) => ({
    base_url: `https://localhost:${port}/v1`,
    ca_file: authority,
  });
  const proxyUrl = `http://user:${proxyPassword}@127.0.0.1:${proxy.port}`;
  cli = await openCliFolder(
    configText({
      providers: {
        plain: { base_url: `http://127.0.0.1:${plain.port}/v1`, api_key: apiKey ?? "" },
        secure: https(secure),
        strange: { base_url: `https://localhost:${secure.port}/v1` },
        expired: https(expired),
        other: https(other),
        closed: `http://127.0.0.1:${closed.port}/v1`,
        nameless: "http://nowhere.invalid/v1",
        dead: { base_url: `http://127.0.0.1:${silentPort.port}/v1`, connect_timeout: "60s" },
        hasty: {
          base_url: `http://127.0.0.1:${silentPort.port}/v1`,
          connect_timeout: "200ms",
        },
        tunnelled: { ...https(secure), proxy: proxyUrl },
        speechless: `https://localhost:${speechless.port}/v1`,
        proxyless: { ...https(secure), proxy: `http://127.0.0.1:${closed.port}` },
        proxynameless: { ...https(secure), proxy: "http://proxy.invalid:3128" },
      },
      models: [{ id: "small", routes: [{ provider: "plain" }] }],
    }).replace('id = "plain"', `id = "plain"\nheaders = { "x-token" = "${headerValue}" }`),
  );
  await chmod(cli.config, 0o600);
  const startedMs = performance.now();
  found = await examine(cli);
  tookMs = performance.now() - startedMs;
}, 60_000);
afterAll(async () => {
  await cli.remove();
  silentPort.stop();
  for (const server of servers) server.stop();
});

describe("doctor connects to every provider", () => {
  test.each([
    ["closed", "cannot connect, nothing listens there: check base_url"],
    ["nameless", "cannot connect, DNS does not know the host in base_url: check base_url"],
    ["strange", "cannot connect, the certificate is not trusted: check base_url, or set ca_file"],
    [
      "other",
      "cannot connect, the certificate is for another host name: use that name in base_url",
    ],
    [
      "speechless",
      "cannot connect, the server does not speak TLS: check the port in base_url, or use",
    ],
    ["proxyless", "cannot connect, nothing listens at the proxy 127.0.0.1:PORT: check proxy"],
    ["proxynameless", "cannot connect, DNS does not know the proxy proxy.invalid:3128: check"],
    ["expired", "cannot connect, the certificate has expired or is not valid yet: check the"],
    [
      "tunnelled",
      "cannot connect, the proxy 127.0.0.1:PORT refuses the user and the password: check proxy",
    ],
    ["dead", "cannot connect within 5 s: check base_url and the network"],
    ["hasty", "cannot connect within 0.2 s: check base_url and the network"],
  ])("and reports for %s: %s", (id, message) => {
    expect(found.failed).toEqual(["providers"]);
    const text = found.messages["providers"]?.replaceAll(/127\.0\.0\.1:\d+/g, "127.0.0.1:PORT");
    expect(text).toContain(`; ${id}: ${message}`);
  });

  test("and passes those that accept", () => {
    expect(found.messages["providers"]).toStartWith("2 of 13 accept connections; ");
    expect(found.messages["providers"]).not.toMatch(/; (?:plain|secure):/);
  });

  test("at the same time, so that timeouts do not add up", () => {
    expect(tookMs).toBeGreaterThan(4900);
    expect(tookMs).toBeLessThan(15_000);
  });

  test("and sends them nothing, and prints no secret", () => {
    for (const { peers } of servers) {
      // The random bytes of a TLS handshake can hold any short word.
      for (const { unread } of peers)
        expect(unread.toString()).not.toMatch(/(POST|GET) \/|bearer /i);
    }
    expect(servers[0]?.peers[0]?.unread.length).toBe(0);
    for (const secret of secrets) expect(found.output).not.toContain(secret);
  });
});
