import { expect, test } from "bun:test";
import { X509Certificate } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { makeCertificate } from "../../config/makeCertificate.ts";
import { oneModel, type GatewayConfig } from "../../support/gateway/gatewayConfig.ts";
import { scrape } from "../../support/gateway/scrape.ts";
import { openTestApp } from "../../support/gateway/testApp.ts";
import { testedStore } from "../../support/testedEngines.ts";

const metrics = { listen: "127.0.0.1:0" };
const closedPort = "http://127.0.0.1:1/v1";
const expiry = "tollgate_tls_certificate_expiry_timestamp_seconds";

test("the end of the certificate is shown, and after a reload that of the next one", async () => {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-certificates-"));
  const made = (name: string, days: number) => {
    const pem = makeCertificate(folder, `${name}.pem`, `${name}-key.pem`, days);
    const server = {
      tls_cert: join(folder, `${name}.pem`),
      tls_key: join(folder, `${name}-key.pem`),
    };
    const config: GatewayConfig = oneModel(closedPort, { metrics, server });
    return { config, endsAt: Date.parse(new X509Certificate(pem).validTo) / 1000 };
  };
  const [first, second] = [made("first", 30), made("second", 90)];
  const gateway = await openTestApp(first.config);
  try {
    const shown = async () => (await scrape(gateway.metricsUrl)).all(expiry);
    expect(await shown()).toEqual([{ labels: {}, value: first.endsAt }]);
    await gateway.reload(second.config);
    expect(await shown()).toEqual([{ labels: {}, value: second.endsAt }]);
    // A reload cannot remove TLS: the listener keeps its certificate.
    await gateway.reload(oneModel(closedPort, { metrics }));
    expect(await shown()).toEqual([{ labels: {}, value: second.endsAt }]);
  } finally {
    await gateway.close();
    await rm(folder, { recursive: true });
  }
});

test("free space is shown of a database file, and the end of a certificate only with TLS", async () => {
  const gateway = await openTestApp(oneModel(closedPort, { metrics }));
  try {
    const found = await scrape(gateway.metricsUrl);
    expect(found.all(expiry)).toEqual([]);
    const shown = found.all("tollgate_store_free_bytes").map(({ value }) => value);
    if (testedStore === "postgres") return expect(shown).toEqual([]);
    // Other programs of this machine write to the same disk.
    const free = freeBytes(dirname(gateway.path));
    expect(shown).toHaveLength(1);
    expect(shown[0]).toBeWithin(free - 1e9, free + 1e9);
  } finally {
    await gateway.close();
  }
});

/** What `df` says that this user may use. */
function freeBytes(folder: string): number {
  const { stdout } = Bun.spawnSync(["df", "--output=avail", "--block-size=1", folder]);
  return Number(stdout.toString().split("\n")[1]);
}
