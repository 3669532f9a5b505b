import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { binaryPath } from "../support/binary/binary.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import { configText, oneModel } from "../support/gateway/gatewayConfig.ts";
import { secret } from "../support/notices/deliveryUnderTest.ts";
import { completion } from "../support/provider/chatAnswers.ts";
import { testAuthority, testCertificate } from "../support/provider/rawServer.ts";
import { startForwardProxy, type ForwardProxyOptions } from "../support/servers/forwardProxy.ts";

const login = { user: "bot", password: "canary" };
const opened: { stop(): unknown }[] = [];
let cli: CliFolder;
let output = "";
const messages = new Map<string, string>();

/** A scheme, what the proxy does, the credentials in its URL, and the message of the route. */
type Case = readonly [
  scheme: "http" | "https" | "socks5" | "socks5h",
  options: Omit<ForwardProxyOptions, "kind">,
  credentials: string,
  message: string,
];

const given = "bot:canary@";
const noLogin = "cannot connect, the proxy PROXY requires a user and a password: set them in proxy";
const wrongLogin = "cannot connect, the proxy PROXY refuses the user and the password: check proxy";
const cases: Readonly<Record<string, Case>> = {
  http: ["http", { login }, given, "ok"],
  https: ["https", { login }, given, "ok"],
  socks5: ["socks5", { login }, given, "ok"],
  socks5h: ["socks5h", {}, "", "ok"],
  "http-login": ["http", { login }, "", noLogin],
  "https-login": ["https", { login }, "bot:canary2@", wrongLogin],
  "socks5-login": ["socks5", { login }, "bot:canary2@", wrongLogin],
  "socks5h-login": ["socks5h", { login }, "", noLogin],
  rules: [
    "socks5h",
    { refusal: 2 },
    "",
    "cannot connect, the proxy PROXY does not allow connections to the provider: check base_url and the rules of the proxy",
  ],
  target: [
    "https",
    { refusal: 502 },
    "",
    "cannot connect, the proxy PROXY cannot reach the provider: check base_url and the network of the proxy",
  ],
  expired: [
    "https",
    { certificate: "expired" },
    given,
    "cannot connect, the certificate of the proxy has expired or is not valid yet: check the clock of this machine and the proxy",
  ],
  stranger: [
    "https",
    { certificate: "selfSigned" },
    given,
    "cannot connect, the certificate of the proxy is not trusted: check proxy, or set ca_file",
  ],
  other: [
    "https",
    { certificate: "otherHost" },
    given,
    "cannot connect, the certificate of the proxy is for another host name: use that name in proxy (ca_file does not help)",
  ],
};
const ids = Object.keys(cases);

beforeAll(async () => {
  const provider = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    tls: testCertificate("localhost"),
    fetch: () => Response.json(completion()),
  });
  opened.push(provider);
  const tables = await Promise.all(
    Object.entries(cases).map(async ([id, [scheme, options, credentials]]) => {
      const kind = scheme === "socks5h" ? "socks5" : scheme;
      const proxy = await startForwardProxy({ kind, ...options });
      opened.push(proxy);
      return [
        id,
        {
          base_url: `https://localhost:${provider.port}/v1`,
          ca_file: "ca.pem",
          proxy: `${scheme}://${credentials}localhost:${proxy.port}`,
        },
      ] as const;
    }),
  );
  const broken = tables.find(([id]) => id === "https-login")?.[1].proxy ?? "";
  cli = await openCliFolder(
    configText({
      providers: Object.fromEntries(tables),
      models: ids.map((id) => ({ id, routes: [{ provider: id, responses: false }] })),
      sections: {
        notify: { webhook: "https://h.example/canary", secret, proxy: broken, ca_file: "ca.pem" },
      },
    }),
  );
  opened.push({ stop: () => cli.remove() });
  await Bun.write(join(cli.folder, "ca.pem"), testAuthority());
  await chmod(cli.config, 0o600);
  const run = await cli.run("check", "--live", "--json");
  output = run.stdout + run.stderr;
  const { live, notices } = JSON.parse(run.stdout) as {
    live: { model: string; message: string }[];
    notices: { message: string }[];
  };
  for (const { model, message } of live)
    messages.set(model, message.replace(/localhost:\d+/, "PROXY"));
  messages.set("webhook", notices[0]?.message.replace(/localhost:\d+/, "PROXY") ?? "");
}, 60_000);
afterAll(async () => {
  for (const one of opened) await one.stop();
});

describe("check --live through a proxy", () => {
  test.each(Object.entries(cases).map(([id, one]) => [id, one[3]] as const))(
    "reports for %s: %s",
    (id, message) => expect(messages.get(id)).toBe(message),
  );

  test("explains a notice that the proxy refuses, and prints no password", () => {
    expect(messages.get("webhook")).toBe(wrongLogin);
    expect(output).not.toContain("canary");
  });
});

test("doctor says the same of the providers", async () => {
  const { stdout } = await cli.run("doctor", "--json");
  const { checks } = JSON.parse(stdout) as { checks: { name: string; message: string }[] };
  const found = checks.find(({ name }) => name === "providers")?.message.split("; ") ?? [];
  const refused = Object.entries(cases).filter(([, one]) => one[3] !== "ok");
  expect(found[0]).toBe(`4 of ${ids.length} accept connections`);
  expect(found.slice(2).map((line) => line.replace(/localhost:\d+/, "PROXY"))).toEqual(
    refused.map(([id, one]) => `${id}: ${one[3]}`),
  );
  expect(stdout).not.toContain("canary");
});

test("check and doctor warn of a proxy of the environment that is not used", async () => {
  const program = ["env", "HTTPS_PROXY=http://u:canary@127.0.0.1:1", await binaryPath()];
  const direct = await openCliFolder(
    configText(oneModel("http://127.0.0.1:9/v1", { api: { allowed_tools: ["web_search"] } })),
    program,
  );
  opened.push({ stop: () => direct.remove() });
  const warning =
    'HTTPS_PROXY: set in the environment and not used: set providers[0].proxy to use a proxy, for example proxy = "${HTTPS_PROXY}"';
  const check = await direct.run("check");
  expect(check).toMatchObject({ status: 0, stderr: `warning: ${warning}` });
  const doctor = await direct.run("doctor", "--json");
  const { checks } = JSON.parse(doctor.stdout) as { checks: { message: string }[] };
  expect(checks[0]?.message).toContain(`warning: ${warning}`);
  expect(check.stderr + doctor.stdout + doctor.stderr).not.toContain("canary");
});
