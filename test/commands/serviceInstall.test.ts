import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeUnit } from "../../src/commands/service/service.ts";
import { binaryPath } from "../support/binary/binary.ts";
import { fromSource, openDesk, type Desk } from "../support/binary/cli.ts";
import { readUnit, valuesOf, wordsOf } from "../support/binary/unitFile.ts";

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
let desk: Desk;
beforeAll(async () => {
  binary = await binaryPath();
  desk = await openDesk(config, [binary]);
}, 60_000);
afterAll(() => desk.remove());

test("the unit is printed for the executable that prints it, and nothing is written", async () => {
  const file = join(desk.folder, "tollgate.service");
  const { status, stdout, stderr } = await desk.run(
    "service",
    "install",
    "--print",
    "--file",
    file,
  );
  expect(status).toBe(0);
  const unit = readUnit(stdout);
  const [command = ""] = valuesOf(unit, "ExecStart");
  expect(wordsOf(command, "command")).toEqual([binary, "serve", "--config", desk.config]);
  expect(valuesOf(unit, "ReadWritePaths")).toEqual(["/tmp/tollgate-nowhere"]);
  expect(valuesOf(unit, "TimeoutStopSec")).toEqual(["90s"]);
  expect(valuesOf(unit, "User")).toEqual(["tollgate"]);
  expect(stderr).toMatch(/^warning: .*: the database is in \/tmp, which PrivateTmp hides/m);
  expect(existsSync(file)).toBe(false);
});

test("as a document it has what the config needs from outside, without the values", async () => {
  const document = await desk.json("service", "install", "--print", "--user", "gate");
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

test("what the service could not see is refused, line by line, and nothing is written", async () => {
  const file = join(desk.folder, "tollgate.service");
  const { status, stdout, stderr } = await desk.run("service", "install", "--file", file);
  expect({ status, stdout }).toEqual({ status: 1, stdout: "" });
  for (const what of ["the database is in /tmp", "a file of the config is in /root"]) {
    expect(stderr.split("\n")).toContainEqual(
      expect.stringMatching(new RegExp(`^error: .*: ${what}.*hides from the service: .+`)),
    );
  }
  expect(existsSync(file)).toBe(false);
});

test("the program in its source is no service", async () => {
  const source = await openDesk(config, fromSource);
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
  const { status, stdout, stderr } = await desk.run("service", "install", "--print", option, value);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toMatch(/^error: option [^\n]+ is invalid[^\n]+$/);
});

describe("the file of a unit", () => {
  const place = (name: string) => join(desk.folder, name);

  test("is written for all to read, once", () => {
    expect(writeUnit(place("new.service"), "a\n")).toBe(true);
    expect(readFileSync(place("new.service"), "utf8")).toBe("a\n");
    expect(statSync(place("new.service")).mode & 0o777).toBe(0o644 & ~process.umask());
    expect(writeUnit(place("new.service"), "a\n")).toBe(false);
  });

  test("may be a link to what it would be", () => {
    writeFileSync(place("elsewhere"), "a\n");
    symlinkSync(place("elsewhere"), place("linked.service"));
    expect(writeUnit(place("linked.service"), "a\n")).toBe(false);
  });

  test("is never changed", () => {
    writeFileSync(place("own.service"), "b\n");
    expect(() => writeUnit(place("own.service"), "a\n")).toThrow("was not changed");
    expect(readFileSync(place("own.service"), "utf8")).toBe("b\n");
  });

  test("is not written through a link, and not read from what is no file", () => {
    symlinkSync(place("target"), place("link.service"));
    mkdirSync(place("folder.service"));
    Bun.spawnSync(["mkfifo", place("pipe.service")]);
    for (const name of ["link.service", "folder.service", "pipe.service"]) {
      expect(() => writeUnit(place(name), "a\n")).toThrow("was not changed");
    }
    expect(existsSync(place("target"))).toBe(false);
    const asLong = "x".repeat(statSync(place("folder.service")).size);
    expect(() => writeUnit(place("folder.service"), asLong)).toThrow("was not changed");
  });

  test("that stands there and cannot be read needs root too", () => {
    // It can only be written, and seems to be empty.
    expect(() => writeUnit("/proc/self/clear_refs", "")).toThrow(
      "exists already and cannot be read: run this as root, or print the unit with --print",
    );
  });

  test("that may not be written needs root, and the message says so", () => {
    // Not even root may make a file there.
    expect(() => writeUnit("/sys/tollgate.service", "a\n")).toThrow(
      "permission denied: run this as root, or print the unit with --print",
    );
  });

  test("whose folder is not there is no file", () => {
    expect(() => writeUnit(place("none/x.service"), "a\n")).toThrow("its folder does not exist");
    writeFileSync(place("file"), "");
    expect(() => writeUnit(place("file/x.service"), "a\n")).toThrow("its folder does not exist");
    symlinkSync("circle.service", place("circle.service"));
    expect(() => writeUnit(place("circle.service"), "a\n")).toThrow("was not changed");
    const long = place(`${"x".repeat(300)}.service`);
    expect(() => writeUnit(long, "a\n")).toThrow("cannot be written: its name is too long");
  });
});
