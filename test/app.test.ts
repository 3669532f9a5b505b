import { rejectionOf } from "./support/gateway/httpClient.ts";
import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { linkSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openApp, systemEdges, type App } from "../src/app.ts";
import { loadConfig } from "../src/config/load.ts";
import { openStore, takeInstanceLock } from "../src/store/open.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-open-"));
  path = join(folder, "tollgate.db");
  writeFileSync(join(folder, "config.toml"), "");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function open(writeLog: (lines: string) => void = () => undefined): Promise<App> {
  const { config } = loadConfig({ path: join(folder, "config.toml") });
  return openApp(config, systemEdges({ writeLog, fatal() {} }));
}

describe("a gateway that cannot be opened releases the instance lock", () => {
  test("if its database is damaged", async () => {
    writeFileSync(path, "damaged ".repeat(1000));
    expect(String(await rejectionOf(open()))).toContain("damaged or not a database");
    expectFree();
  });

  test("if its database has a hard link, by which another gateway could lose charges", async () => {
    await (await open()).close();
    const other = join(folder, "other.db");
    linkSync(path, other);
    expect(String(await rejectionOf(open()))).toContain(
      `another name by a hard link (\`find / -xdev -samefile ${path}\``,
    );
    expectFree();
    rmSync(other);
    await (await open()).close();
  });

  test("if another program writes, so that open requests of the previous run cannot be ended", async () => {
    openStore({ path, durability: "process", serving: true }).closeNow();
    const other = new Database(path);
    other.run("BEGIN IMMEDIATE");
    expect(String(await rejectionOf(open()))).toContain(
      `database is locked by another process: ${path}; try again`,
    );
    other.close();
    expectFree();
  }, 60_000);
});

test("a gateway logs that it created its database, and logs nothing for an existing one", async () => {
  const lines: string[] = [];
  const run = async () => (await open((written) => lines.push(written))).close();
  await run();
  expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([
    { level: "info", msg: "created a new database: none existed at this path", database: path },
  ]);
  await run();
  expect(lines).toHaveLength(1);
});

function expectFree(): void {
  const lock = takeInstanceLock(path);
  expect(lock).toBeDefined();
  lock?.release();
}
