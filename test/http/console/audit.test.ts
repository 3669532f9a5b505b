import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AuditProgress, AuditResult } from "../../../src/contract/operator/auditResult.ts";
import { configOf, minimal } from "../../config/loadText.ts";
import { openConsole, type ConsoleUnderTest } from "../../support/gateway/consoleUnderTest.ts";
import { openCliFolder } from "../../support/binary/cli.ts";
import { signIn, startConsole } from "../../support/binary/consoleProcess.ts";
import { fillMonths } from "../../support/store/months.ts";
import { tamper } from "../../support/store/sampleLedger.ts";
import { openStoreFolder, type StoreFolder } from "../../support/store/storeFolder.ts";
import { amount } from "../../support/sample.ts";

const NOW_MS = Date.UTC(2026, 4, 20, 13, 37);
const REQUESTS = amount(20_000, 60_000);

let folder: string;
let storeFolder: StoreFolder;
let page: ConsoleUnderTest;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "tollgate-audit-"));
  const path = join(folder, "tollgate.db");
  fillMonths(path, { requests: REQUESTS, accounts: 20, keys: 40, days: 70, untilMs: NOW_MS });
  storeFolder = await openStoreFolder(path);
  page = openConsole(storeFolder.store, configOf(minimal), NOW_MS);
}, 60_000);
afterAll(async () => {
  await page.stop();
  await storeFolder.close();
  await rm(folder, { recursive: true });
});

interface Event {
  readonly name: string;
  readonly data: unknown;
}

async function runAudit(): Promise<Event[]> {
  const response = await page.send("/api/audit", { method: "POST" });
  expect([response.status, response.headers.get("content-type")]).toEqual([
    200,
    "text/event-stream",
  ]);
  const text = await response.text();
  return [...text.matchAll(/^event: (.*)\ndata: (.*)\n\n/gm)].map(([, name = "", data = ""]) => ({
    name,
    data: JSON.parse(data),
  }));
}

test("an audit reports its progress, and its result is that of tollgate audit", async () => {
  const events = await runAudit();
  const progress = events.slice(0, -1).map(({ data }) => data as AuditProgress);
  expect(events.at(-1)).toEqual({
    name: "result",
    data: { ok: true, ...(await storeFolder.store.audit()) },
  });
  expect(new Set(progress.map(({ what }) => what)).size).toBeGreaterThan(2);
  expect(new Set(progress.map(({ total }) => total)).size).toBe(1);
  const done = progress.map((one) => one.done);
  expect(done).toEqual(done.toSorted((a, b) => a - b));
  expect(done.at(-1)).toBeLessThanOrEqual(progress[0]?.total ?? 0);
});

test("other reads are answered during an audit, a second audit is not", async () => {
  const first = await page.send("/api/audit", { method: "POST" });
  const second = await page.send("/api/audit", { method: "POST" });
  expect([second.status, await second.json()]).toEqual([
    409,
    { error: { message: "an audit is running: wait for its result" } },
  ]);
  await page.read("/api/overview");
  const [last] = (await first.text()).split("event: ").slice(-1);
  expect(last).toStartWith("result\n");
});

test("an audit ends when the page leaves", async () => {
  const aborting = new AbortController();
  const left = await page.send("/api/audit", { method: "POST", signal: aborting.signal });
  aborting.abort();
  expect(await left.text().catch(() => "cut off")).toBe("cut off");
  let next: Response;
  do next = await page.send("/api/audit", { method: "POST" });
  while (next.status === 409);
  expect(await next.text()).toContain("event: result\n");
});

test("the executable starts its Workers", async () => {
  const cli = await openCliFolder();
  cli.makeDatabase();
  const running = await startConsole(cli);
  const response = await (await signIn(running)).post("/api/audit");
  expect(await response.text()).toContain('event: result\ndata: {"ok":true,');
  await running.stop();
  await cli.remove();
}, 60_000);

test("an audit shows each problem", async () => {
  tamper(storeFolder, "UPDATE requests SET charge = charge + 1 WHERE id = 5 AND status = 'done'");
  const { data } = (await runAudit()).at(-1) ?? {};
  const { ok, problems } = data as AuditResult;
  expect(ok).toBe(false);
  expect(problems.join("\n")).toContain("charge and write-off are not the price of its usage");
});
