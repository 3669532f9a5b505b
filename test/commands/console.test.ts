import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { appendFileSync, copyFileSync, renameSync, statSync } from "node:fs";
import type { ConsoleState } from "../../src/contract/operator/consoleState.ts";
import { openCliFolder, type CliFolder } from "../support/binary/cli.ts";
import {
  signIn,
  startConsole,
  type ConsolePage,
  type ConsoleProcess,
} from "../support/binary/consoleProcess.ts";

let cli: CliFolder;

beforeAll(async () => {
  cli = await openCliFolder();
  await cli.json("accounts", "create", "alice");
});

afterAll(() => cli.remove());

/** Runs `work` with a new console, and ends it. */
async function withConsole(work: (console: ConsoleProcess) => Promise<void>): Promise<void> {
  const console = await startConsole(cli);
  try {
    await work(console);
  } finally {
    await console.stop();
  }
}

async function messageOf(answer: Response): Promise<string> {
  return ((await answer.json()) as { error: { message: string } }).error.message;
}

const ended =
  /^this address is not signed in or its session has ended: run `tollgate console` again/;

describe("the token", () => {
  test("is exchanged once", async () => {
    await withConsole(async (console) => {
      expect((await fetch(`${console.url}/api/state`)).status).toBe(401);
      const page = await signIn(console);
      expect(await (await page.get("/api/state")).json()).toMatchObject({
        config_file: cli.config,
      });
      const again = await exchange(console, console.token);
      expect([again.status, again.headers.get("set-cookie")]).toEqual([401, null]);
      expect(await messageOf(again)).toMatch(ended);
    });
  });

  test("comes in a cookie with its own name, HttpOnly and SameSite=Strict", async () => {
    await withConsole(async (console) => {
      const answer = await exchange(console, console.token);
      expect(answer.headers.get("set-cookie")).toMatch(
        /^tollgate_console_[0-9a-f]{12}=[\w-]{43}; HttpOnly; SameSite=Strict; Path=\/$/,
      );
    });
  });

  test("ends the command after ten wrong ones", async () => {
    const console = await startConsole(cli);
    const wrong = `${console.token.startsWith("x") ? "y" : "x"}${console.token.slice(1)}`;
    for (let tried = 0; tried < 10; tried += 1)
      expect((await exchange(console, wrong)).status).toBe(401);
    expect(await console.ended).toBe(1);
    expect(await console.errors).toMatch(/^error: ten wrong tokens: the console ends/);
  });

  test("is in no cookie and no answer", async () => {
    await withConsole(async (console) => {
      const answer = await exchange(console, console.token);
      const said = `${JSON.stringify([...answer.headers])}${await answer.text()}`;
      expect(said).not.toContain(console.token);
    });
  });
});

function exchange({ url }: ConsoleProcess, token: string): Promise<Response> {
  return fetch(`${url}/api/session`, {
    method: "POST",
    headers: { origin: url, "x-tollgate-console": "1", "content-type": "application/json" },
    body: JSON.stringify({ token }),
  });
}

/** A read has the page's secret. A write without the header is refused for that. */
function secretOf(method: string, { pageSecret }: ConsolePage): Record<string, string> {
  return method === "GET" ? { "x-tollgate-console": pageSecret } : {};
}

describe("a request of another site", () => {
  const foreign = /another site's page may not use the console/;
  const rows: readonly (readonly [string, string, Record<string, string>, RegExp])[] = [
    [
      "a name of its own for this address",
      "GET",
      { host: "evil.example" },
      /answers only at a loop/,
    ],
    ["such a name with our port", "GET", { host: "evil.example:8090" }, /answers only at a loop/],
    ["a name that looks like ours", "GET", { host: "127.0.0.1.evil.example" }, /answers only at a/],
    ["a foreign origin", "GET", { origin: "https://evil.example" }, foreign],
    ["another port of this machine", "GET", { origin: "http://127.0.0.1:1" }, foreign],
    ["no origin, as a frame of its own", "GET", { origin: "null" }, foreign],
    ["a fetch from another site", "GET", { "sec-fetch-site": "cross-site" }, foreign],
    ["a fetch from another port", "GET", { "sec-fetch-site": "same-site" }, foreign],
    ["a form without our header", "POST", { origin: "own" }, /a change needs the headers origin/],
    [
      "a write without an origin",
      "POST",
      { "x-tollgate-console": "1" },
      /a change needs the headers/,
    ],
  ];
  test.each(rows)("%s", async (_, method, headers, message) => {
    await withConsole(async (console) => {
      const page = await signIn(console);
      const own = headers["origin"] === "own" ? { ...headers, origin: console.url } : headers;
      const path = method === "GET" ? "/api/state" : "/api/session/end";
      const answer = await fetch(console.url + path, {
        method,
        headers: { cookie: page.cookie, ...secretOf(method, page), ...own },
      });
      expect(answer.status).toBe(403);
      expect(answer.headers.get("access-control-allow-origin")).toBeNull();
      expect(await messageOf(answer)).toMatch(message);
      expect((await page.get("/api/state")).status).toBe(200);
    });
  });

  test("may not ask what it may do", async () => {
    await withConsole(async ({ url }) => {
      const headers = { origin: "https://evil.example", "access-control-request-method": "POST" };
      const answer = await fetch(`${url}/api/session`, { method: "OPTIONS", headers });
      expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([
        403,
        null,
      ]);
    });
  });
});

describe("tollgate console", () => {
  test("tells the page about a change by another command", async () => {
    await withConsole(async (console) => {
      const page = await signIn(console);
      const events = await page.get("/api/changes");
      const reader = events.body?.pipeThrough(new TextDecoderStream()).getReader();
      expect((await reader?.read())?.value).toBe(": open\n\n");
      await cli.json("balance", "credit", "alice", "5");
      expect((await reader?.read())?.value).toBe("event: change\ndata: {}\n\n");
    });
  });

  test("changes nothing after its database was replaced", async () => {
    const other = await openCliFolder();
    await other.json("accounts", "create", "alice");
    const console = await startConsole(other);
    const page = await signIn(console);
    const database = join(other.folder, "tollgate.db");
    await other.json("backup", join(other.folder, "backup.db"));
    for (const end of ["", "-wal", "-shm"]) renameSync(database + end, `${database}.old${end}`);
    copyFileSync(join(other.folder, "backup.db"), database);
    const answer = await page.post("/api/accounts/alice/credit", { amount: "5" });
    expect(answer.status).toBe(409);
    expect(await messageOf(answer)).toMatch(/was replaced or removed: nothing was changed; run/);
    expect((await page.get("/api/accounts/alice")).status).toBe(409);
    await console.stop();
    await other.remove();
  });

  test("names the database that it changes, also after the config names another", async () => {
    const other = await openCliFolder();
    other.makeDatabase();
    const console = await startConsole(other);
    const page = await signIn(console);
    const stateOf = async () => (await (await page.get("/api/state")).json()) as ConsoleState;
    const { database } = await stateOf();
    appendFileSync(other.config, '\n[database]\npath = "another.db"\n');
    expect((await stateOf()).database).toBe(database);
    await console.stop();
    await other.remove();
  });

  test("ends when the page asks for it", async () => {
    const console = await startConsole(cli);
    const page = await signIn(console);
    expect((await page.post("/api/session/end")).status).toBe(200);
    expect(await console.ended).toBe(0);
  });

  test.each([
    ["0.0.0.0:8090", /listens on loopback addresses and unix sockets only/],
    ["192.168.1.5:8090", /listens on loopback addresses and unix sockets only/],
    ["example.com:8090", /listens on loopback addresses and unix sockets only/],
    ["8090", /--listen takes an address such as 127\.0\.0\.1:8090 or unix:\/path/],
  ])("refuses to listen on %s", async (listen, message) => {
    const { status, stderr } = await cli.run("console", "--listen", listen);
    expect([status, stderr]).toEqual([2, expect.stringMatching(message)]);
  });

  test("listens on a unix socket that only its user may open", async () => {
    const path = join(cli.folder, "console.sock");
    const console = await startConsole(cli, ["--listen", `unix:${path}`]);
    expect(console.listen).toBe(path);
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const answer = await fetch(`${console.url}/api/state`, { unix: path });
    expect(answer.status).toBe(401);
    await console.stop();
  });

  test("serves its page with no code of others", async () => {
    await withConsole(async ({ url }) => {
      const { headers } = await fetch(`${url}/`);
      expect(headers.get("content-security-policy")).toMatch(/^default-src 'self'; /);
      expect(headers.get("x-content-type-options")).toBe("nosniff");
    });
  });
});
