import { expect, test } from "bun:test";
import { call, noProvider, ask } from "../../support/gateway/chatCalls.ts";
import { startGatewayProcess, startTimeoutMs } from "../../support/binary/gatewayProcess.ts";

/** Nobody else listens here, and everything to 127.0.0.0/8 stays on the machine. */
const RESOLVER = "127.0.0.9";
const DNS_PORT = 53;
const CONNECT_TIMEOUT_MS = 1500;

/** The resolver is named in a file of the machine. Only root can give a process another one. */
const MOUNT = ["unshare", "-m", "sh", "-c"];
const isAllowed =
  process.getuid?.() === 0 &&
  Bun.which("unshare") !== null &&
  Bun.spawnSync([...MOUNT, "mount --bind /dev/null /etc/resolv.conf"]).exitCode === 0;
if (!isAllowed) process.stderr.write("NOT RUN: row 3: no other resolver may be mounted here\n");

test.skipIf(!isAllowed)(
  "row 3: a resolver that never answers is awaited for connect_timeout, and delays no other request",
  async () => {
    let queries = 0;
    const resolver = await Bun.udpSocket({
      hostname: RESOLVER,
      port: DNS_PORT,
      socket: { data: () => void (queries += 1) },
    });
    const gateway = await startGatewayProcess(
      {
        providers: {
          lost: {
            base_url: "https://provider.example.test/v1",
            connect_timeout: `${CONNECT_TIMEOUT_MS}ms`,
          },
        },
        models: [{ id: "small", routes: [{ provider: "lost" }] }],
      },
      {
        launcher: [...MOUNT, 'mount --bind resolv.conf /etc/resolv.conf && exec "$@"', "sh"],
        prepare: async ({ folder }) => {
          await Bun.write(`${folder}/resolv.conf`, `nameserver ${RESOLVER}\n`);
        },
      },
    );
    try {
      const key = await gateway.key("alice", "100");
      const startedMs = performance.now();
      const asked = call(gateway, { key }, { body: ask() });
      const health = await call(gateway, undefined, { path: "/healthz", method: "GET" });
      expect([health.status, performance.now() - startedMs < CONNECT_TIMEOUT_MS]).toEqual([
        200,
        true,
      ]);
      const { status, body, id } = await asked;
      const tookMs = performance.now() - startedMs;
      const [, type, message] = noProvider;
      expect([status, body]).toEqual([502, { error: { message, type } }]);
      expect(tookMs).toBeGreaterThanOrEqual(CONNECT_TIMEOUT_MS - 1);
      expect(tookMs).toBeLessThan(20_000);
      expect(queries).toBeGreaterThan(0);
      expect(await gateway.request(id)).toMatchObject({ status: "failed", cost_rub: "0" });
    } finally {
      await gateway.close();
      resolver.close();
    }
  },
  startTimeoutMs,
);
