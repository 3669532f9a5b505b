import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unitText, type UnitPlan } from "../../../src/commands/service/unit.ts";
import { readUnit, valuesOf, wordsOf } from "../../support/binary/unitFile.ts";

const plan: UnitPlan = {
  executable: "/usr/local/bin/tollgate",
  configFile: "/etc/tollgate/config.toml",
  user: "tollgate",
  writableFolders: ["/var/lib/tollgate"],
  runtimeFolders: [],
  listens: [{ kind: "tcp", host: "127.0.0.1", port: 8080 }],
  drainDelayMs: 3000,
  shutdownGraceMs: 30_000,
  variables: ["OPENAI_API_KEY"],
};

function unitOf(changes: Partial<UnitPlan> = {}) {
  return readUnit(unitText({ ...plan, ...changes }));
}

describe("the unit", () => {
  test.each([
    ["User", "tollgate"],
    ["ExecStart", "/usr/local/bin/tollgate serve --config /etc/tollgate/config.toml"],
    ["KillSignal", "SIGTERM"],
    ["Restart", "on-failure"],
    ["RestartSec", "5s"],
    // A reload before the program handles SIGHUP ends it. systemd regards that as a clean exit.
    ["RestartForceExitStatus", "SIGHUP"],
    ["EnvironmentFile", "-/etc/tollgate/environment"],
    [
      "UnsetEnvironment",
      "BUN_OPTIONS BUN_BE_BUN NODE_TLS_REJECT_UNAUTHORIZED NODE_OPTIONS HTTP_PROXY HTTPS_PROXY",
    ],
    ["NoNewPrivileges", "yes"],
    ["ProtectSystem", "strict"],
    ["ProtectHome", "yes"],
    ["PrivateTmp", "yes"],
    ["PrivateDevices", "yes"],
    ["MemoryDenyWriteExecute", "no"],
    ["LimitCORE", "0"],
    ["LimitNOFILE", "65536"],
    ["UMask", "0077"],
    ["ReadWritePaths", "/var/lib/tollgate"],
    ["CapabilityBoundingSet", ""],
    ["RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"],
    ["RestrictNamespaces", "yes"],
    ["LockPersonality", "yes"],
    ["ProtectKernelTunables", "yes"],
    ["ProtectKernelModules", "yes"],
    ["ProtectKernelLogs", "yes"],
  ])("has once, in [Service]: %s=%s", (name, value) => {
    expect(unitOf().filter((line) => line.name === name)).toEqual([
      { section: "Service", name, value },
    ]);
  });

  test("checks the config before the gateway reloads it, so that an invalid config fails the reload", () => {
    expect(valuesOf(unitOf(), "ExecReload")).toEqual([
      "/usr/local/bin/tollgate check --config /etc/tollgate/config.toml",
      "/bin/kill -HUP $MAINPID",
    ]);
  });

  test("keeps the proxy variables that the config uses, and unsets all other dangerous variables", () => {
    const variables = ["BUN_OPTIONS", "HTTPS_PROXY", "https_proxy"];
    expect(valuesOf(unitOf({ variables }), "UnsetEnvironment")).toEqual([
      "BUN_OPTIONS BUN_BE_BUN NODE_TLS_REJECT_UNAUTHORIZED NODE_OPTIONS HTTP_PROXY",
    ]);
  });

  test("allows the system calls of a service, without the privileged ones", () => {
    expect(valuesOf(unitOf(), "SystemCallFilter")).toEqual(["@system-service", "~@privileged"]);
    expect(valuesOf(unitOf(), "SystemCallErrorNumber")).toEqual(["EPERM"]);
  });

  test("starts at boot after the network, and restarts without a limit", () => {
    const lines = unitOf().filter(({ section }) => section !== "Service");
    expect(lines).toEqual([
      expect.objectContaining({ section: "Unit", name: "Description" }),
      { section: "Unit", name: "Wants", value: "network-online.target" },
      { section: "Unit", name: "After", value: "network-online.target" },
      { section: "Unit", name: "StartLimitIntervalSec", value: "0" },
      { section: "Install", name: "WantedBy", value: "multi-user.target" },
    ]);
  });

  test.each([
    [0, 0, "30s"],
    [0, 500, "31s"],
    [3000, 30_000, "63s"],
    [300_000, 3_600_000, "3930s"],
  ])("allows for a stop with %d ms of delay and %d ms of grace: %s", (delayMs, graceMs, time) => {
    const unit = unitOf({ drainDelayMs: delayMs, shutdownGraceMs: graceMs });
    expect(valuesOf(unit, "TimeoutStopSec")).toEqual([time]);
  });

  test.each([
    [80, ["CAP_NET_BIND_SERVICE"]],
    [1023, ["CAP_NET_BIND_SERVICE"]],
    [1024, []],
    [0, []],
  ])("has only the capability that port %d needs", (port, ambient) => {
    const unit = unitOf({ listens: [...plan.listens, { kind: "tcp", host: "::", port }] });
    expect(valuesOf(unit, "AmbientCapabilities")).toEqual(ambient);
    expect(valuesOf(unit, "CapabilityBoundingSet")).toEqual([ambient[0] ?? ""]);
  });

  test("makes systemd create the folders of sockets below /run", () => {
    const unit = unitOf({ runtimeFolders: ["tollgate", "tollgate/metrics"] });
    expect(valuesOf(unit, "RuntimeDirectory")).toEqual(["tollgate", "tollgate/metrics"]);
  });
});

/** Each path has another meaning in a unit unless it is escaped. */
const oddPaths = [
  "/srv/two words",
  "/srv/100%n",
  "/srv/%",
  "/srv/$HOME",
  "/srv/${HOME}",
  "/srv/$$",
  '/srv/"quoted" \\ back',
  "/srv/it's",
  "/srv/ключ",
  "/srv/a;b #c",
  "/srv/end\\",
];

describe("a path with special characters is escaped", () => {
  test.each(oddPaths)("as the config: %s", (configFile) => {
    const [command = ""] = valuesOf(unitOf({ configFile }), "ExecStart");
    expect(wordsOf(command, "command")).toEqual([plan.executable, "serve", "--config", configFile]);
  });

  test.each(oddPaths)("as a writable folder: %s", (folder) => {
    const [paths = ""] = valuesOf(unitOf({ writableFolders: [folder] }), "ReadWritePaths");
    expect(wordsOf(paths, "paths")).toEqual([folder]);
  });

  test.each(["/opt/two words/tollgate", "/opt/100%n/tollgate", "/opt/$HOME/tollgate"])(
    "as the program: %s",
    (executable) => {
      const [command = ""] = valuesOf(unitOf({ executable }), "ExecStart");
      expect(wordsOf(command, "command")[0]).toBe(executable);
    },
  );
});

describe("a path that a unit cannot contain is refused", () => {
  test.each<[keyof UnitPlan, string]>([
    ["configFile", "/etc/a\nExecStartPre=/bin/evil"],
    ["configFile", "/etc/a\u001b"],
    ["configFile", "/etc/a\u2028"],
    ["executable", "/opt/a\tb"],
    ["executable", '/opt/a"b'],
    ["executable", "/opt/it's"],
    ["executable", "/opt/a\\b"],
  ])("%s %j", (name, path) => {
    expect(() => unitText({ ...plan, [name]: path })).toThrow(path);
  });

  test.each(["writableFolders", "runtimeFolders"] as const)("in %s", (name) => {
    expect(() => unitText({ ...plan, [name]: ["/srv/a\nb"] })).toThrow("control char");
  });
});

// The tests above parse units with their own reader. If systemd is installed, it parses them too.
const analyze = Bun.which("systemd-analyze");
describe.skipIf(analyze === null)("systemd (skipped where it is not installed)", () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-unit-"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  test.each([
    ["plain", {}],
    ["odd", { configFile: '/etc/a "b" $c %d\\e', writableFolders: ["/srv/a b%c'd", "/srv/ключ"] }],
    [
      "low port and socket",
      {
        listens: [{ kind: "tcp", host: "0.0.0.0", port: 443 }] as const,
        runtimeFolders: ["tollgate"],
      },
    ],
  ])("accepts a unit: %s", async (_, changes) => {
    const file = join(folder, "tollgate.service");
    // systemd-analyze requires that the program exists.
    await Bun.write(file, unitText({ ...plan, executable: "/bin/true", ...changes }));
    const child = Bun.spawn([analyze ?? "", "verify", file], { stdio: ["ignore", "pipe", "pipe"] });
    const [stdout, stderr, status] = await Promise.all([
      child.stdout.text(),
      child.stderr.text(),
      child.exited,
    ]);
    expect({ status, output: stdout + stderr }).toEqual({ status: 0, output: "" });
  });
});
