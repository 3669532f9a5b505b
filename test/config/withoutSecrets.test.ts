import { expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigError, loadConfig } from "../../src/config/load.ts";

const text = `
[server]
tls_cert = "/nowhere/cert.pem"
tls_key = "/nowhere/key.pem"
[[providers]]
id = "p"
base_url = "https://api.example.com/v1"
api_key = "\${TOLLGATE_TEST_UNSET}"
headers = { "x-team" = "\${TOLLGATE_TEST_UNSET}" }
[[models]]
id = "m"
rub_input_per_1m = 1
rub_output_per_1m = 1
max_output_tokens = 1
[[models.routes]]
provider = "p"
`;

test("a config is administered without the secrets that serving it needs", () => {
  const folder = mkdtempSync(join(tmpdir(), "tollgate-config-"));
  try {
    const path = join(folder, "config.toml");
    writeFileSync(path, text, { mode: 0o600 });
    expect(() => loadConfig({ path })).toThrow(ConfigError);
    const { config } = loadConfig({ path, secrets: "unread" });
    expect(config.models.map(({ id }) => id)).toEqual(["m"]);
    expect(config.providers[0]?.apiKey).toBeUndefined();
    writeFileSync(path, text.replace("max_output_tokens = 1", "max_output_tokens = 0"));
    expect(() => loadConfig({ path, secrets: "unread" })).toThrow("max_output_tokens");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
