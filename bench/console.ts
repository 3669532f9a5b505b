/**
 * What the reads of the operator's console take on a store of a million requests: `bun bench/console.ts`. `--folder DIR`
 * keeps the filled store and its config there, and takes up the one that is there: `tollgate console --config
 * DIR/config.toml` shows it. `--requests COUNT` makes another size.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { reportSpans } from "../src/contract/operator/span.ts";
import { DAY_MS } from "../src/lib/clock.ts";
import { openStore, type SqliteStore } from "../src/store/open.ts";
import type { RequestFilter } from "../src/store/store.ts";
import { aMillion, accountName, fillMonths, monthsConfig } from "../test/support/store/months.ts";

/** Each view of the console has to be there within this time. */
const VIEW_MS_MAX = 300;
const ROUNDS = 5;

/** The reads by name. The last request of the store tells the time. */
async function readsOf({
  reports,
  requests,
  ledger,
  accounts,
}: SqliteStore): Promise<Record<string, () => Promise<unknown>>> {
  const [newest] = (await requests.list({}, { limit: 1 })).rows;
  const nowMs = newest?.at ?? 0;
  const busiest = accountName(1);
  const quiet = accountName(150);
  const list = (filter: RequestFilter) => () => requests.list(filter, { limit: 50 });
  return {
    ...Object.fromEntries(
      reportSpans.flatMap((span) => [
        [`overview, ${span}`, () => reports.overview(span, nowMs)],
        [`providers, ${span}`, () => reports.providers(span, nowMs)],
        [
          `account with most requests, ${span}`,
          async () => reports.account((await accounts.findOrThrow(busiest)).id, span, nowMs),
        ],
      ]),
    ),
    accounts: () => reports.accounts({ limit: 100 }, nowMs),
    "accounts, part of a name": () => reports.accounts({ search: "bank", limit: 100 }, nowMs),
    "keys, part of a label": () => reports.keys({ search: "support", limit: 100 }, nowMs),
    "keys of an account": () => reports.keys({ account: busiest, limit: 100 }, nowMs),
    "ledger of an account": async () =>
      ledger.history((await accounts.findOrThrow(busiest)).id, 50),
    "one request": async () => [
      await requests.find(newest?.id ?? ""),
      await requests.attempts(newest?.id ?? ""),
    ],
    requests: list({}),
    "requests of the busiest account": list({ account: busiest }),
    "requests of a quiet account": list({ account: quiet }),
    "requests of a key": list({ key: newest?.key ?? "" }),
    "requests, failed": list({ status: "failed" }),
    "requests, failed, of an account": list({ status: "failed", account: busiest }),
    "requests of a model": list({ model: "gpt-5-mini" }),
    "requests of a provider": list({ provider: "local" }),
    "requests of one day two months ago": list({
      since: nowMs - 60 * DAY_MS,
      until: nowMs - 59 * DAY_MS,
    }),
    "requests above 3 roubles": list({ chargeMin: 3_000_000_000n }),
    "requests that do not exist": list({ model: "no-such-model" }),
    "requests above a million roubles of the busiest account": list({
      account: busiest,
      chargeMin: 1_000_000_000_000_000n,
    }),
    "requests that were written off": list({ isWrittenOff: true }),
    "failed requests of a model that does not exist": list({
      status: "failed",
      model: "no-such-model",
    }),
  };
}

/**
 * The first of some rounds, which comes after the store was opened, the fastest one, and the least CPU time of one. Other
 * load does not change the latter.
 */
async function timesOf(
  read: () => Promise<unknown>,
): Promise<Record<"first" | "fastest" | "cpu", number>> {
  const rounds: { readonly tookMs: number; readonly cpuMs: number }[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const cpu = process.cpuUsage();
    const startedMs = performance.now();
    await read();
    const { user, system } = process.cpuUsage(cpu);
    rounds.push({ tookMs: performance.now() - startedMs, cpuMs: (user + system) / 1000 });
  }
  return {
    first: rounds[0]?.tookMs ?? 0,
    fastest: Math.min(...rounds.map(({ tookMs }) => tookMs)),
    cpu: Math.min(...rounds.map(({ cpuMs }) => cpuMs)),
  };
}

const { values } = parseArgs({
  options: { folder: { type: "string" }, requests: { type: "string" } },
});
const folder = values.folder ?? mkdtempSync(join(tmpdir(), "tollgate-console-"));
mkdirSync(folder, { recursive: true });
const path = join(folder, "tollgate.db");
if (!existsSync(path)) {
  const startedMs = performance.now();
  const requests = values.requests === undefined ? aMillion.requests : Number(values.requests);
  fillMonths(path, { ...aMillion, requests, untilMs: Date.now() });
  writeFileSync(join(folder, "config.toml"), monthsConfig(path));
  console.error(`filled in ${((performance.now() - startedMs) / 1000).toFixed(0)} s`);
}
const store = openStore({ path, durability: "process", serving: false });
let isTooSlow = false;
console.log("first, ms  fastest, ms  CPU, ms");
for (const [name, read] of Object.entries(await readsOf(store))) {
  const { first, fastest, cpu } = await timesOf(read);
  isTooSlow ||= cpu > VIEW_MS_MAX;
  const figures = [first.toFixed(1).padStart(9), fastest.toFixed(1).padStart(11)];
  console.log([...figures, cpu.toFixed(1).padStart(7), name].join("  "));
}
store.closeNow();
if (values.folder === undefined) rmSync(folder, { recursive: true });
if (isTooSlow) {
  console.error(`a read takes more than ${VIEW_MS_MAX} ms`);
  process.exitCode = 1;
}
