import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { readReferences } from "../../src/config/load.ts";
import { inScratchFolder } from "./loadText.ts";

function referencesOf(text: string): ReturnType<typeof readReferences> & { folder: string } {
  return inScratchFolder((folder) => {
    const file = join(folder, "config.toml");
    writeFileSync(file, text);
    return { ...readReferences(file), folder };
  });
}

describe("what a config needs besides itself", () => {
  test("is each variable that a value names, once, whether it is set or not", () => {
    const { variables } = referencesOf(`
      # \${IN_A_COMMENT}
      [server]
      listen = "\${HOST}:\${PORT}"
      [[providers]]
      api_key = "\${KEY_B}"
      headers = { "\${NOT_A_VALUE}" = "\${KEY_A} \${KEY_B}" }
      [limits]
      trusted_proxies = ["\${PROXY}", "$PLAIN", "\${not closed"]
    `);
    expect(variables).toEqual(["HOST", "KEY_A", "KEY_B", "PORT", "PROXY"]);
  });

  test("is each file of a secret or a certificate, from the config's folder on", () => {
    const { files, folder } = referencesOf(`
      [server]
      tls_cert = "/etc/cert.pem"
      tls_key = "key.pem"
      [database]
      path = "a.db"
      [[providers]]
      api_key_file = "secrets/one"
      ca_file = "\${WHERE}/ca.pem"
      [[providers]]
      api_key_file = ""
      ca_file = "../ca.pem"
    `);
    expect(files).toEqual([
      "/etc/cert.pem",
      join(folder, "key.pem"),
      join(folder, "secrets/one"),
      join(folder, "../ca.pem"),
    ]);
  });

  test("is nothing in a config that has neither", () => {
    expect(referencesOf("")).toMatchObject({ variables: [], files: [] });
  });
});
