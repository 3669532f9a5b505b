import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeUnit } from "../../../src/commands/service/service.ts";
import { binaryPath } from "../../support/binary/binary.ts";
import { fromSource, openCliFolder, type CliFolder } from "../../support/binary/cli.ts";
import { readUnit, valuesOf, wordsOf } from "../../support/binary/unitFile.ts";

const config = `
[server]
shutdown_grace = "1m"
[database]
path = "/tmp/tollgate-nowhere/tollgate.db"
[[providers]]
id = "one"
base_url = "http://127.0.0.1:9/v1"
api_key = "\${ONE_KEY}"
headers = { x = "\${OTHER_KEY} and \${ONE_KEY}" }
ca_file = "/root/tollgate-nowhere/one.pem"
[[models]]
id = "small"
rub_input_per_1m = 1
rub_output_per_1m = 1
max_output_tokens = 1
[[models.routes]]
provider = "one"
`;

let binary: string;
let cli: CliFolder;
beforeAll(async () => {
  binary = await binaryPath();
  cli = await openCliFolder(config, [binary]);
}, 60_000);
afterAll(() => cli.remove());

test("--print prints the unit for the running executable and writes nothing", async () => {
  const file = join(cli.folder, "tollgate.service");
  const { status, stdout, stderr } = await cli.run("service", "install", "--print", "--file", file);
  expect(status).toBe(0);
  const unit = readUnit(stdout);
  const [command = ""] = valuesOf(unit, "ExecStart");
  expect(wordsOf(command, "command")).toEqual([binary, "serve", "--config", cli.config]);
  expect(valuesOf(unit, "ReadWritePaths")).toEqual(["/tmp/tollgate-nowhere"]);
  expect(valuesOf(unit, "TimeoutStopSec")).toEqual(["93s"]);
  expect(valuesOf(unit, "User")).toEqual(["tollgate"]);
  expect(stderr).toMatch(/^warning: .*: the database is in \/tmp, which PrivateTmp hides/m);
  expect(existsSync(file)).toBe(false);
});

test("--json names the variables and files that the config needs, without their values", async () => {
  const document = await cli.json("service", "install", "--print", "--user", "gate");
  expect(document).toMatchObject({
    file: "/etc/systemd/system/tollgate.service",
    changed: false,
    unit: expect.stringContaining("\nUser=gate\n"),
    variables: ["ONE_KEY", "OTHER_KEY"],
    next: expect.arrayContaining([
      "systemctl daemon-reload",
      "# gate must be able to read: /root/tollgate-nowhere/one.pem",
    ]),
    problems: expect.arrayContaining([expect.stringContaining("hides from the service")]),
  });
});

test("paths that the service could not use are refused, one line each, and nothing is written", async () => {
  const file = join(cli.folder, "tollgate.service");
  const { status, stdout, stderr } = await cli.run("service", "install", "--file", file);
  expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
  for (const what of ["the database is in /tmp", "a file of the config is in /root"]) {
    expect(stderr.split("\n")).toContainEqual(
      expect.stringMatching(new RegExp(`^error: .*: ${what}.*hides from the service: .+`)),
    );
  }
  expect(existsSync(file)).toBe(false);
});

test("a service needs the built executable", async () => {
  const source = await openCliFolder(config, fromSource);
  try {
    const { status, stdout, stderr } = await source.run("service", "install", "--print");
    expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
    expect(stderr).toMatch(
      /^error: a service needs the built executable: run `bun run build`, [^\n]+$/,
    );
  } finally {
    await source.remove();
  }
});

test.each<[string, string]>([
  ["--user", "root"],
  ["--user", "a b"],
  ["--user", "-x"],
  ["--user", "%n"],
  ["--file", "tollgate.conf"],
  ["--file", "a b.service"],
  ["--file", "a\nb/x.service"],
])("%s %j is wrong usage", async (option, value) => {
  const { status, stdout, stderr } = await cli.run("service", "install", "--print", option, value);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toMatch(/^error: option [^\n]+ is invalid[^\n]+$/);
});

describe("writeUnit", () => {
  const place = (name: string) => join(cli.folder, name);

  test("writes a file that every user can read, once", () => {
    expect(writeUnit(place("new.service"), "a\n")).toBe(true);
    expect(readFileSync(place("new.service"), "utf8")).toBe("a\n");
    expect(statSync(place("new.service")).mode & 0o777).toBe(0o644 & ~process.umask());
    expect(writeUnit(place("new.service"), "a\n")).toBe(false);
  });

  test("never changes an existing file", () => {
    writeFileSync(place("own.service"), "b\n");
    expect(() => writeUnit(place("own.service"), "a\n")).toThrow("was not changed");
    expect(readFileSync(place("own.service"), "utf8")).toBe("b\n");
  });

  test("does not write through a link", () => {
    symlinkSync(place("target"), place("link.service"));
    expect(() => writeUnit(place("link.service"), "a\n")).toThrow("was not changed");
    expect(existsSync(place("target"))).toBe(false);
  });

  test("says that it needs root for a file that it cannot read", () => {
    // This file can only be written.
    expect(() => writeUnit("/proc/self/clear_refs", "")).toThrow(
      "exists already and cannot be read: run this as root, or print the unit with --print",
    );
  });

  test("says that it needs root for a folder that it cannot write to", () => {
    // Not even root can create a file here.
    expect(() => writeUnit("/sys/tollgate.service", "a\n")).toThrow(
      "permission denied: run this as root, or print the unit with --print",
    );
  });

  test("says that the folder does not exist", () => {
    expect(() => writeUnit(place("none/x.service"), "a\n")).toThrow("its folder does not exist");
  });
});
