import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unitText, type UnitPlan } from "../../src/commands/service/unit.ts";
import { readUnit, valuesOf, wordsOf } from "../support/binary/unitFile.ts";

const plan: UnitPlan = {
  executable: "/usr/local/bin/tollgate",
  configFile: "/etc/tollgate/config.toml",
  user: "tollgate",
  writableFolders: ["/var/lib/tollgate"],
  runtimeFolders: [],
  listens: [{ kind: "tcp", host: "127.0.0.1", port: 8080 }],
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
    // To systemd its end is a clean one, and a reload may come before the runtime hears of signals.
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
  ])("says once, of the service: %s=%s", (name, value) => {
    expect(unitOf().filter((line) => line.name === name)).toEqual([
      { section: "Service", name, value },
    ]);
  });

  test("has the config checked before the gateway is told to read it, so that a refused one fails the reload", () => {
    expect(valuesOf(unitOf(), "ExecReload")).toEqual([
      "/usr/local/bin/tollgate check --config /etc/tollgate/config.toml",
      "/bin/kill -HUP $MAINPID",
    ]);
  });

  test("says beside the reload what it does not take", () => {
    expect(unitText(plan)).toContain(
      "a new or changed one needs `systemctl restart`, a changed api_key_file does not.\nExecReload=",
    );
  });

  test("leaves the service the proxies that the config names, and nothing else of what it unsets", () => {
    const variables = ["BUN_OPTIONS", "HTTPS_PROXY", "https_proxy"];
    expect(valuesOf(unitOf({ variables }), "UnsetEnvironment")).toEqual([
      "BUN_OPTIONS BUN_BE_BUN NODE_TLS_REJECT_UNAUTHORIZED NODE_OPTIONS HTTP_PROXY",
    ]);
  });

  test("lets the system calls of a service through, without those of root", () => {
    expect(valuesOf(unitOf(), "SystemCallFilter")).toEqual(["@system-service", "~@privileged"]);
    expect(valuesOf(unitOf(), "SystemCallErrorNumber")).toEqual(["EPERM"]);
  });

  test("is started at boot, when the network is there, and never given up", () => {
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
    [0, "30s"],
    [500, "31s"],
    [30_000, "60s"],
    [3_600_000, "3630s"],
  ])("gives a stop with %d ms of grace %s", (shutdownGraceMs, time) => {
    expect(valuesOf(unitOf({ shutdownGraceMs }), "TimeoutStopSec")).toEqual([time]);
  });

  test.each([
    [80, ["CAP_NET_BIND_SERVICE"]],
    [1023, ["CAP_NET_BIND_SERVICE"]],
    [1024, []],
    [0, []],
  ])("has the capability that port %d needs, and no other", (port, ambient) => {
    const unit = unitOf({ listens: [...plan.listens, { kind: "tcp", host: "::", port }] });
    expect(valuesOf(unit, "AmbientCapabilities")).toEqual(ambient);
    expect(valuesOf(unit, "CapabilityBoundingSet")).toEqual([ambient[0] ?? ""]);
  });

  test("has the folders of sockets made below /run", () => {
    const unit = unitOf({ runtimeFolders: ["tollgate", "tollgate/metrics"] });
    expect(valuesOf(unit, "RuntimeDirectory")).toEqual(["tollgate", "tollgate/metrics"]);
  });
});

/** Each is a path that means something else when it is written as it is. */
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

describe("paths survive", () => {
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

describe("a path that no unit can hold is refused", () => {
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

  test("also as a writable folder", () => {
    expect(() => unitText({ ...plan, writableFolders: ["/srv/a\nb"] })).toThrow("control char");
  });
});

// The lines above are read by a reader of our own; where systemd is there, it reads them too.
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
  ])("finds nothing wrong with a unit: %s", async (_, changes) => {
    const file = join(folder, "tollgate.service");
    // It asks whether the programs of a unit are there.
    await Bun.write(file, unitText({ ...plan, executable: "/bin/true", ...changes }));
    const child = Bun.spawn([analyze ?? "", "verify", file], { stdio: ["ignore", "pipe", "pipe"] });
    const [stdout, stderr, status] = await Promise.all([
      child.stdout.text(),
      child.stderr.text(),
      child.exited,
    ]);
    expect({ status, said: stdout + stderr }).toEqual({ status: 0, said: "" });
  });
});
