import { Database } from "bun:sqlite";
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openApp, systemEdges } from "../src/app.ts";
import { loadConfig } from "../src/config/load.ts";
import { openStore, takeInstanceLock } from "../src/store/store.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tollgate-open-"));
  path = join(folder, "tollgate.db");
  writeFileSync(join(folder, "config.toml"), "");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function open(): void {
  const { config } = loadConfig({ path: join(folder, "config.toml") });
  openApp(config, systemEdges({ writeLog() {}, fatal() {} }));
}

describe("a gateway that cannot be opened leaves its place to the next one", () => {
  test("where its database is damaged", () => {
    writeFileSync(path, "damaged ".repeat(1000));
    expect(open).toThrow("damaged or not a database");
    expectFree();
  });

  test("where another program writes, so that what an earlier life left running cannot be ended", () => {
    openStore({ path, durability: "process", serving: true }).close();
    const other = new Database(path);
    other.run("BEGIN IMMEDIATE");
    expect(open).toThrow(`database is locked by another process: ${path}; try again`);
    other.close();
    expectFree();
  }, 20_000);
});

function expectFree(): void {
  const lock = takeInstanceLock(path);
  expect(lock).toBeDefined();
  lock?.release();
}
