import { describe, expect, test } from "bun:test";
import { configOf, loadText, minimal } from "./loadText.ts";

describe("server.listen", () => {
  const tcp = (host: string, port: number) => ({ kind: "tcp", host, port });
  test.each([
    ["127.0.0.1:0", tcp("127.0.0.1", 0)],
    ["0.0.0.0:65535", tcp("0.0.0.0", 65_535)],
    ["localhost:80", tcp("localhost", 80)],
    ["gateway.example.org:8080", tcp("gateway.example.org", 8080)],
    ["[::1]:8080", tcp("::1", 8080)],
    ["[::]:8080", tcp("::", 8080)],
    ["unix:/run/tollgate.sock", { kind: "unix", path: "/run/tollgate.sock" }],
  ])("%s", (text, listen) => {
    expect(configOf(`server.listen = "${text}"\n${minimal}`).server.listen).toMatchObject(listen);
  });

  test.each([
    "",
    ":8080",
    "8080",
    "127.0.0.1",
    "127.0.0.1:65536",
    "127.0.0.1:-1",
    "127.0.0.1:http",
    "127.0.0.256:80",
    "1.2.3:80",
    "::1:8080",
    "[::1]",
    "[::zz]:80",
    "[127.0.0.1]:80",
    "*:80",
    "http://127.0.0.1:80",
    "a b:80",
    "-a:80",
    "unix:",
    "127.0.0.1:80 ",
  ])("%j is refused", (text) => {
    expect(loadText(`server.listen = "${text}"\n${minimal}`).problems).toEqual([
      'server.listen: must be "ADDRESS:PORT" ("0.0.0.0:8080" is every address of this machine) or "unix:/path"',
    ]);
  });

  test("a unix socket lies in the config's folder, or at an absolute path of at most 103 bytes", () => {
    const config = configOf(`server.listen = "unix:gate.sock"\n${minimal}`);
    expect(config.server.listen).toEqual({
      kind: "unix",
      path: config.file.replace("config.toml", "gate.sock"),
    });
    const longest = `/${"s".repeat(102)}`;
    expect(configOf(`server.listen = "unix:${longest}"\n${minimal}`).server.listen).toEqual({
      kind: "unix",
      path: longest,
    });
    expect(loadText(`server.listen = "unix:${longest}s"\n${minimal}`).problems).toEqual([
      "server.listen: is too long for a Unix socket: use a path of at most 103 bytes",
    ]);
  });

  const warning =
    "server.listen: listens on the network without TLS, so keys are sent unencrypted; set tls_cert and tls_key, or use a TLS proxy in front";
  test.each(["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "gateway.example.org:80", "128.0.0.1:80"])(
    "%s without TLS is warned of",
    (text) => {
      expect(loadText(`server.listen = "${text}"\n${minimal}`).warnings).toEqual([warning]);
    },
  );
  test.each([
    "127.0.0.1:80",
    "127.9.9.9:80",
    "[::1]:80",
    "[::ffff:127.0.0.1]:80",
    "localhost:80",
    "unix:/run/a",
  ])("%s is not", (text) => {
    expect(loadText(`server.listen = "${text}"\n${minimal}`).warnings).toEqual([]);
  });
});

describe("metrics", () => {
  const apart =
    "must differ from server.listen, and use another port if one of them listens on every address";
  test("have a listener of their own", () => {
    expect(configOf(`metrics.listen = "127.0.0.1:9090"\n${minimal}`).metrics).toEqual({
      listen: { kind: "tcp", host: "127.0.0.1", port: 9090 },
    });
  });
  test.each([
    ['metrics.listen = "127.0.0.1:8080"', apart],
    ['server.listen = "[::1]:80"\nmetrics.listen = "[0::1]:80"', apart],
    ['metrics.listen = "unix:/run/one"\nserver.listen = "unix:/run/../run/one"', apart],
  ])("%j is refused", (text, problem) => {
    expect(loadText(`${text}\n${minimal}`).problems).toEqual([`metrics.listen: ${problem}`]);
  });
  test.each([
    ["0.0.0.0:4990", "127.0.0.1:4990"],
    ["10.0.0.5:4990", "0.0.0.0:4990"],
    ["0.0.0.0:4990", "localhost:4990"],
    ["[::]:4990", "127.0.0.1:4990"],
    ["[::]:4990", "[::1]:4990"],
    ["0.0.0.0:4990", "[0::0]:4990"],
    ["0.0.0.0:4990", "[::ffff:127.0.0.1]:4990"],
  ])("that every address of %s has are refused: %s", (server, metrics) => {
    const text = `server.listen = "${server}"\nmetrics.listen = "${metrics}"\n${minimal}`;
    expect(loadText(text).problems).toEqual([`metrics.listen: ${apart}`]);
  });
  test.each([
    ["0.0.0.0:4990", "[::1]:4990"],
    ["0.0.0.0:4990", "127.0.0.1:4991"],
    ["127.0.0.1:4990", "127.0.0.2:4990"],
    ["0.0.0.0:0", "127.0.0.1:0"],
  ])("beside %s are taken: %s", (server, metrics) => {
    const text = `server.listen = "${server}"\nmetrics.listen = "${metrics}"\n${minimal}`;
    expect(loadText(text).problems).toEqual([]);
  });
  test("without an address are off", () => {
    expect(configOf(`[metrics]\n${minimal}`).metrics).toBeUndefined();
  });
  test("both on port 0 do not collide", () => {
    const text = 'server.listen = "127.0.0.1:0"\nmetrics.listen = "127.0.0.1:0"';
    expect(loadText(`${text}\n${minimal}`).problems).toEqual([]);
  });
  test("shown to other machines are warned of", () => {
    expect(loadText(`metrics.listen = "0.0.0.0:9090"\n${minimal}`).warnings).toEqual([
      "metrics.listen: serves the metrics to other machines without a key",
    ]);
  });
});

describe("server.processes", () => {
  const read = (processes: string, listen = "127.0.0.1:8080") =>
    loadText(`server.listen = "${listen}"\nserver.processes = ${processes}\n${minimal}`);

  test.each([
    ['"auto"', "auto"],
    ["1", 1],
    ["64", 64],
  ] as const)("may be %s", (text, processes) => {
    expect(configOf(`server.processes = ${text}\n${minimal}`).server.processes).toBe(processes);
  });

  test.each(["0", "65", "1.5", '"2"', '"all"', "true"])("%s is refused", (text) => {
    expect(read(text).problems).toEqual([
      'server.processes: must be "auto" or a whole number from 1 to 64',
    ]);
  });

  test("above 1 needs an address and a port", () => {
    expect(read("2", "unix:gate.sock").problems).toEqual([
      'server.processes: must be 1 or "auto" with a Unix socket, which belongs to one process: set it so, or listen on an address and a port',
    ]);
    expect(read('"auto"', "unix:gate.sock").problems).toEqual([]);
  });
});
