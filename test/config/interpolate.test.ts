import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Inspection } from "../../src/config/inspection.ts";
import { interpolate } from "../../src/config/interpolate.ts";
import { readReferences } from "../../src/config/load.ts";
import { inScratchFolder, loadText } from "./loadText.ts";

function interpolated(tree: unknown, environment: Readonly<Record<string, string>>) {
  const inspection = new Inspection("/", 0);
  return { tree: interpolate(tree, environment, inspection), problems: inspection.problems };
}

describe("a variable in a text", () => {
  const environment = { A: "1", _b2: "two", LOOP: "${A}", TOML: '"\n[evil]\nx = "' };
  test.each([
    ["${A}", "1"],
    ["x${A}y${_b2}z", "x1ytwoz"],
    ["${A}${A}", "11"],
    ["$A", "$A"],
    ["$${A}", "$1"],
    ["$$", "$$"],
    ["pa$$word", "pa$$word"],
    ["{A}", "{A}"],
    ["${LOOP}", "${A}"],
    ["${TOML}", '"\n[evil]\nx = "'],
    ["", ""],
  ])("%j becomes %j", (text, value) => {
    expect(interpolated({ list: [{ text }] }, environment)).toEqual({
      tree: { list: [{ text: value }] },
      problems: [],
    });
  });

  test.each(["${}", "${A", "${a-b}", "${1A}", "${ A }", "${A:-default}"])(
    "%j is no reference",
    (text) => {
      expect(interpolated({ list: [text] }, environment).problems).toEqual([
        "list[0]: a ${ must be followed by the name of an environment variable and a }",
      ]);
    },
  );

  test.each(["MISSING", "EMPTY", "constructor", "__proto__", "toString"])(
    "%s, unset or empty, is a problem that names it and its key, and says what to do",
    (name) => {
      const { problems } = interpolated(
        { a: { b: `x\${A}\${${name}}` } },
        { A: "canary", EMPTY: "" },
      );
      const state = name === "EMPTY" ? "empty" : "not set";
      expect(problems).toEqual([
        `a.b: the environment variable ${name} is ${state}: set it and run this again, or restart a gateway that started without it; a systemd service reads /etc/tollgate/environment, and as root \`set -a; . /etc/tollgate/environment\` loads it into the shell`,
      ]);
    },
  );
});

test("keys, numbers and truth values are left alone", () => {
  const tree = { "${A}": 1n, b: true, c: 1.5 };
  expect(interpolated(tree, { A: "x" })).toEqual({ tree, problems: [] });
});

test("a variable that is not set is the only problem of its key", () => {
  const text =
    '[[providers]]\nid = "one"\nbase_url = "${NOT_SET_ANYWHERE}"\napi_key = "${NOR_THIS}"';
  expect(loadText(text).problems).toEqual([
    expect.stringContaining("providers[0].api_key: the environment variable NOR_THIS is not set"),
    expect.stringContaining(
      "providers[0].base_url: the environment variable NOT_SET_ANYWHERE is not set",
    ),
  ]);
});

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
      [notify]
      secret_file = "secrets/notify"
      [[providers]]
      api_key_file = "secrets/one"
      ca_file = "\${WHERE}/ca.pem"
      [[providers]]
      api_key_file = ""
      ca_file = "../ca.pem"
      [[providers.accounts]]
      api_key_file = "secrets/account"
    `);
    expect(files).toEqual([
      "/etc/cert.pem",
      join(folder, "key.pem"),
      join(folder, "secrets/notify"),
      join(folder, "secrets/one"),
      join(folder, "../ca.pem"),
      join(folder, "secrets/account"),
    ]);
  });

  test("is nothing in a config that has neither", () => {
    expect(referencesOf("")).toMatchObject({ variables: [], files: [] });
  });
});
