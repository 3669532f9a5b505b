import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { exists } from "node:fs/promises";
import { dirname } from "node:path";
import { binaryPath } from "../support/binary/binary.ts";
import { startDemo, type Demo, type Welcome } from "../support/binary/demoProcess.ts";
import { startTimeoutMs } from "../support/binary/gatewayProcess.ts";
import { until } from "../support/until.ts";

const models = ["demo-large", "demo-small", "demo-code", "demo-reasoner"];
const anywhere = ["--listen", "127.0.0.1:0"];
let binary: string;

beforeAll(async () => {
  binary = await binaryPath();
}, startTimeoutMs);

/** Runs a line unchanged, as a person pastes it. */
async function paste(line: string): Promise<{ status: number; stdout: string; stderr: string }> {
  const child = Bun.spawn(["bash", "-c", line], {
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const [stdout, stderr, status] = await Promise.all([
    child.stdout.text(),
    child.stderr.text(),
    child.exited,
  ]);
  return { status, stdout, stderr };
}

/** The arguments that bash splits a line into. */
async function wordsOf(line: string): Promise<string[]> {
  const { stdout } = await paste(`printf '%s\\0' ${line}`);
  return stdout.split("\0").slice(0, -1);
}

/** Runs a printed curl line. Without curl, sends its request here. */
async function curl(line: string): Promise<string> {
  if (Bun.which("curl") !== null) {
    const { status, stdout, stderr } = await paste(line);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    return stdout;
  }
  const [program, flags, url = "", ...rest] = await wordsOf(line);
  expect([program, flags]).toEqual(["curl", expect.stringMatching(/^-sN?$/)]);
  const headers = new Headers();
  let body: string | undefined;
  for (let at = 0; at < rest.length; at += 2) {
    const [flag, value = ""] = rest.slice(at);
    if (flag === "-d") body = value;
    else headers.append(...(/^([^:]+): (.*)$/.exec(value)?.slice(1) as [string, string]));
  }
  const answer = await fetch(
    url,
    body === undefined ? { headers } : { method: "POST", headers, body },
  );
  return answer.text();
}

describe("tollgate demo --json", () => {
  let demo: Demo;
  let welcome: Welcome;

  beforeAll(async () => {
    demo = await startDemo("--json", ...anywhere);
    welcome = JSON.parse(demo.text) as Welcome;
  });
  afterAll(() => demo.end("SIGKILL"));

  /** The rows of `tollgate usage` by one grouping. */
  async function reported<Row>(by: string): Promise<Row[]> {
    const { stdout } = await paste(`${welcome.commands.usage} --by ${by} --json`);
    return JSON.parse(stdout) as Row[];
  }

  test("prints a curl line that streams an answer unchanged, from any folder", async () => {
    const answer = await curl(welcome.commands.chat);
    expect(answer).toStartWith('data: {"id":"chatcmpl-');
    expect(answer).toEndWith("data: [DONE]\n\n");
    const text = answer
      .split("\n\n")
      .filter((event) => event.startsWith("data: {"))
      .map(
        (event) =>
          (
            JSON.parse(event.slice("data: ".length)) as {
              choices: { delta: { content?: string } }[];
            }
          ).choices[0]?.delta.content ?? "",
      )
      .join("");
    expect(text).toContain("Hello from the demo provider!");
  });

  test("prints a curl line that lists the models", async () => {
    const { data } = JSON.parse(await curl(welcome.commands.models)) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(models);
  });

  test.each([
    ["balance", /^balance, RUB +\d+\.\d+$/m],
    ["history", /charge.*-0\.\d+/],
    ["usage", /^\d{4}-\d\d-\d\d +\d+ /m],
    ["audit", /^the ledger is consistent/],
  ] as const)("prints a %s command that runs unchanged, from any folder", async (name, shown) => {
    const { status, stdout, stderr } = await paste(welcome.commands[name]);
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    expect(stdout).toMatch(shown);
  });

  test("has a month of use on each day, of all accounts, with some failures", async () => {
    const days = await reported<{ requests: number; failed: number }>("day");
    // Just after midnight there may be no request of today yet.
    expect(days.length).toBeWithin(29, 31);
    const requests = days.reduce((sum, day) => sum + day.requests, 0);
    expect(requests).toBeGreaterThan(5000);
    expect(days.reduce((sum, day) => sum + day.failed, 0)).toBeWithin(10, requests / 20);
    expect(await reported("account")).toBeArrayOfSize(7);
    expect(await reported("model")).toBeArrayOfSize(models.length);
  });

  test("has an account whose use the printed key sees, with the balance that it prints", async () => {
    const headers = { authorization: `Bearer ${welcome.key}` };
    const get = async (path: string): Promise<unknown> =>
      (await fetch(welcome.base_url + path, { headers })).json();
    const account = (await get("/account")) as { balance_rub: string };
    expect(Number(welcome.balance_rub) - Number(account.balance_rub)).toBeWithin(0, 5);
    const { data } = (await get("/usage?by=day")) as { data: unknown[] };
    expect(data.length).toBeWithin(29, 31);
  });

  test("prints the code of a voucher that its key can redeem", async () => {
    const answer = await fetch(`${welcome.base_url}/vouchers/redeem`, {
      method: "POST",
      headers: { authorization: `Bearer ${welcome.key}`, "content-type": "application/json" },
      body: JSON.stringify({ code: welcome.voucher }),
    });
    expect(await answer.json()).toMatchObject({ applied: true, amount_rub: "100" });
    const { stdout } = await paste(welcome.commands.history);
    expect(stdout).toMatch(/credit +100 .*voucher:vch_/);
  });

  test("prints the address of the page with the key behind #, which answers with HTML", async () => {
    expect(welcome.page).toBe(`${new URL(welcome.base_url).origin}/#key=${welcome.key}`);
    const { status, headers } = await fetch(welcome.page);
    expect([status, headers.get("content-type")]).toEqual([
      200,
      expect.stringContaining("text/html"),
    ]);
  });

  test("prints a command that opens the console beside it", async () => {
    const child = Bun.spawn(
      ["bash", "-c", `exec ${welcome.commands.console} --listen 127.0.0.1:0`],
      {
        cwd: "/",
        env: { PATH: process.env["PATH"] ?? "" },
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    const { value } = await child.stdout.getReader().read();
    expect(new TextDecoder().decode(value)).toMatch(/^ {2}http:\/\/127\.0\.0\.1:\d+\/#token=/m);
    child.kill("SIGINT");
    expect(await child.exited).toBe(0);
  });

  test("prints nothing but its one document", () =>
    expect(() => JSON.parse(demo.text)).not.toThrow());

  test("removes its folder when SIGINT ends it, with status 0", async () => {
    expect(await exists(welcome.config)).toBe(true);
    expect(await demo.end("SIGINT")).toBe(0);
    expect(await exists(dirname(welcome.config))).toBe(false);
  });
});

test("tollgate demo removes its folder too when its terminal is closed", async () => {
  const demo = await startDemo("--json", ...anywhere);
  const { config } = JSON.parse(demo.text) as Welcome;
  expect(await exists(config)).toBe(true);
  expect(await demo.end("SIGHUP")).toBe(0);
  expect(await exists(dirname(config))).toBe(false);
});

test("tollgate demo explains what to do when it cannot create its folder", async () => {
  const child = Bun.spawn([binary, "demo", ...anywhere], {
    env: { TMPDIR: "/nope" },
    stdio: ["ignore", "ignore", "pipe"],
  });
  expect([await child.exited, await child.stderr.text()]).toEqual([
    1,
    "error: cannot create a folder in /nope (no such file): set TMPDIR to a folder that this user may write to\n",
  ]);
});

test("tollgate demo shows the key, and each command on its own line", async () => {
  const demo = await startDemo(...anywhere);
  try {
    const { text } = demo;
    const key = /^key +(sk-tg-[0-9A-Za-z]{40,})$/m.exec(text)?.[1];
    const url = /^base URL +(http:\/\/127\.0\.0\.1:\d+\/v1)$/m.exec(text)?.[1];
    expect([key, url]).not.toContain(undefined);
    expect(text).toStartWith("Tollgate is running with a demo provider");
    const lines = text.split("\n").map((line) => line.trim());
    const commands = lines.filter(
      (line) => line.startsWith("curl ") || line.includes(" --config "),
    );
    expect(commands).toHaveLength(7);
    const { origin } = new URL(url ?? "");
    expect(lines[1]).toBe(`${origin}/#key=${key}`);
    await until("the log follows the welcome", () =>
      /The log follows\.\n\S+ info +listening +address=/.test(demo.text),
    );
    const models = await curl(commands.find((line) => line.includes(`${url}/models`)) ?? "");
    expect(models).toContain("demo-large");
    const audit = await paste(commands.at(-1) ?? "");
    expect(audit).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^the ledger is consistent/),
    });
  } finally {
    expect(await demo.end("SIGTERM")).toBe(0);
  }
});

test("tollgate demo --provider-only runs a provider that the config it prints can name", async () => {
  const demo = await startDemo("--provider-only", "--json", ...anywhere);
  try {
    const { base_url: url } = JSON.parse(demo.text) as { base_url: string };
    const answer = await fetch(`${url}/chat/completions`, {
      method: "POST",
      body: JSON.stringify({ model: "any", messages: [{ role: "user", content: "hi" }] }),
    });
    expect(await answer.json()).toMatchObject({ object: "chat.completion" });
  } finally {
    expect(await demo.end("SIGINT")).toBe(0);
  }
});
