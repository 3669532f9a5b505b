import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { Database } from "bun:sqlite";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { loadConfig } from "../../../src/config/load.ts";
import type { AccountDetail } from "../../../src/contract/operator/accountDetail.ts";
import type { AccountList, KeyList, LedgerPage } from "../../../src/contract/operator/lists.ts";
import type { ModelPrices } from "../../../src/contract/operator/modelPrices.ts";
import type { Overview } from "../../../src/contract/operator/overview.ts";
import type { ProviderReport } from "../../../src/contract/operator/providerReport.ts";
import type { RequestDetailDocument } from "../../../src/contract/operator/request.ts";
import { reportSpans } from "../../../src/contract/operator/span.ts";
import { DAY_MS } from "../../../src/lib/clock.ts";
import { formatRoubles, parseRoubles } from "../../../src/lib/money.ts";
import { usageGroupings, type UsageRow } from "../../../src/store/store.ts";
import { openConsole, type ConsoleUnderTest } from "../../support/gateway/consoleUnderTest.ts";
import { fillMonths, monthsConfig } from "../../support/store/months.ts";
import {
  ended,
  fund,
  openStoreFolder,
  running,
  type StoreFolder,
} from "../../support/store/storeFolder.ts";
import { amount, sample } from "../../support/sample.ts";

const NOW_MS = Date.UTC(2026, 4, 20, 13, 37);
const MONTHS = { requests: amount(2000, 6000), accounts: 20, keys: 40, days: 70, untilMs: NOW_MS };

/** Each writes a store that is empty but for its schema. */
const stores: Record<string, (storeFolder: StoreFolder) => unknown> = {
  "an empty store": () => undefined,
  "one request": async (storeFolder) => {
    const alice = await fund(storeFolder.store, "alice", 1_000_000n);
    await storeFolder.record(ended("req_1", alice, { at: NOW_MS - 1000 }));
  },
  "one running request": async (storeFolder) => {
    const alice = await fund(storeFolder.store, "alice", 1_000_000n);
    await storeFolder.record(running("req_1", alice, { at: NOW_MS - 2 * 3_600_000 }));
  },
  "months of requests": () => undefined,
  "months of requests, folded until yesterday": ({ writer }) => fold(writer, NOW_MS - DAY_MS),
  "months of requests, folded until an hour ago": ({ writer }) => fold(writer, NOW_MS - 3_600_000),
};

async function fold(writer: StoreFolder["writer"], before: number): Promise<void> {
  let folded: number | undefined;
  do ({ folded } = await writer.write({ kind: "fold", before }));
  while (folded !== undefined && folded > 0);
}

describe.each(sample(Object.entries(stores), 3, ([name]) => name))(
  "the console over %s",
  (name, prepare) => {
    let folder: string;
    let storeFolder: StoreFolder;
    let page: ConsoleUnderTest;
    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "tollgate-reads-"));
      const path = join(folder, "tollgate.db");
      if (name.startsWith("months")) fillMonths(path, MONTHS);
      storeFolder = await openStoreFolder(path);
      await prepare(storeFolder);
      await writeFile(join(folder, "config.toml"), monthsConfig(path), { mode: 0o600 });
      const { config } = loadConfig({ path: join(folder, "config.toml") });
      page = openConsole(storeFolder.store, config, NOW_MS);
    });
    afterAll(async () => {
      await page.stop();
      await storeFolder.close();
      await rm(folder, { recursive: true });
    });

    test.each(reportSpans)("shows the figures of tollgate usage for %s", async (span) => {
      const overview = await page.read<Overview>(`/api/overview?span=${span}`);
      const { now, before, series, times } = overview;
      const usageOf = async (part: { from: string; to: string }) =>
        totalOf(
          await storeFolder.store.usage.by("day", {
            since: Date.parse(part.from),
            until: Date.parse(part.to) + 1,
          }),
        );
      expect(sumsOf(now)).toEqual(await usageOf(now));
      expect(sumsOf(before)).toEqual(await usageOf(before));
      expect(Date.parse(now.to) - Date.parse(before.to)).toBe(
        Date.parse(now.from) - Date.parse(before.from),
      );
      expect(series.requests.reduce((a, b) => a + b, 0)).toBe(now.requests);
      expect(series.requests).toHaveLength(times.length);
      expect(roublesOf(series.charged_rub)).toBe(now.charged_rub);
      expect(roublesOf(series.margin_rub)).toBe(now.margin_rub);
      expect(roublesOf(series.models.flatMap((model) => model.charged_rub))).toBe(now.charged_rub);
      for (const grouping of usageGroupings) {
        if (grouping === "day") continue;
        const rows = await storeFolder.store.usage.by(grouping, { since: Date.parse(now.from) });
        const expected = rows
          .toSorted((a, b) => Number(b.cost - a.cost))
          .map((row) => [row.group, formatRoubles(row.cost), row.requests]);
        expect(topOf(overview, grouping)).toEqual(expected.slice(0, 10));
      }
    });

    test("adds up the accounts to the whole", async () => {
      const { data, total } = await page.read<AccountList>("/api/accounts?limit=1000");
      expect(data).toHaveLength(total);
      const overview = await page.read<Overview>("/api/overview?span=30d");
      const details = await Promise.all(
        data.map((one) => page.read<AccountDetail>(`/api/accounts/${one.name}?span=30d`)),
      );
      expect(roublesOf(details.map(({ now }) => now.charged_rub))).toBe(overview.now.charged_rub);
      expect(roublesOf(data.map((one) => one.charged_30d_rub))).toBe(overview.now.charged_rub);
      const keys = await page.read<KeyList>("/api/keys?limit=1000");
      expect(roublesOf(keys.data.map((key) => key.charged_30d_rub))).toBe(overview.now.charged_rub);
      expect(data.reduce((sum, one) => sum + one.keys, 0)).toBe(keys.total);
    });

    test("counts each attempt at a provider once", async () => {
      const report = await page.read<ProviderReport>("/api/providers?span=90d");
      expect(report.breakers).toBeNull();
      expect(report.breakers_error).toBeNull();
      const expected = attemptsOf(storeFolder.path, Date.parse(report.attempts_from));
      const counted = report.providers
        .filter(({ attempts }) => attempts > 0)
        .map(({ provider, attempts, failed }) => ({ provider, attempts, failed }))
        .toSorted((a, b) => (a.provider < b.provider ? -1 : 1));
      expect(counted).toEqual(expected);
      const { now } = await page.read<Overview>("/api/overview?span=90d");
      const ofProviders = report.providers;
      expect(roublesOf(ofProviders.map((one) => one.charged_rub))).toBe(now.charged_rub);
      expect(roublesOf(ofProviders.map((one) => one.operator_cost_rub))).toBe(
        now.operator_cost_rub,
      );
      for (const { series, outcomes, failed, attempts } of ofProviders) {
        expect(sum(series.attempts)).toBe(attempts);
        expect(sum(series.failed)).toBe(failed);
        expect(sum(outcomes.map((one) => one.attempts))).toBe(failed);
      }
    });

    test("shows all rows of a ledger, page by page", async () => {
      const [account] = await storeFolder.store.accounts.list();
      if (account === undefined) return;
      const all = (await storeFolder.store.ledger.history(account.id, 100_000)).map(
        ({ seq }) => seq,
      );
      const shown: number[] = [];
      let next: string | null = "";
      while (next !== null) {
        const before: string = next === "" ? "" : `&before=${next}`;
        const ledger = await page.read<LedgerPage>(
          `/api/accounts/${account.name}/ledger?limit=1000${before}`,
        );
        shown.push(...ledger.data.map(({ id }) => id));
        ({ next } = ledger);
      }
      expect(shown).toEqual(all);
    });

    test("shows a request as tollgate requests show does", async () => {
      const [newest] = (await storeFolder.store.requests.list({}, { limit: 1 })).rows;
      if (newest === undefined) return;
      const shown = await page.read<RequestDetailDocument>(`/api/requests/${newest.id}`);
      expect(shown.id).toBe(newest.id);
      expect(shown.attempts).toHaveLength(newest.attemptCount);
    });

    test("shows the prices and margins of the config", async () => {
      const { data } = await page.read<ModelPrices>("/api/models");
      expect(data[1]).toMatchObject({
        id: "gpt-5-mini",
        prices: { rub_input_per_1m: 25_000, rub_output_per_1m: 200_000 },
        routes: [{ provider: "openai", input_margin_percent: 30 }, { provider: "openrouter" }],
      });
    });
  },
);

function sumsOf(figures: Overview["now"]) {
  return {
    requests: figures.requests,
    failed: figures.failed,
    prompt: figures.prompt_tokens,
    completion: figures.completion_tokens,
    charged: figures.charged_rub,
    refunded: figures.refunded_rub,
    own: figures.operator_cost_rub,
  };
}

function totalOf(rows: readonly UsageRow[]): ReturnType<typeof sumsOf> {
  const money = (of: (row: UsageRow) => bigint) =>
    formatRoubles(rows.reduce((all, row) => all + of(row), 0n));
  return {
    requests: sum(rows.map((row) => row.requests)),
    failed: sum(rows.map((row) => row.failed)),
    prompt: sum(rows.map((row) => row.promptTokens)),
    completion: sum(rows.map((row) => row.completionTokens)),
    charged: money((row) => row.cost),
    refunded: money((row) => row.refunded),
    own: money((row) => row.operatorCost),
  };
}

function topOf({ top }: Overview, grouping: Exclude<(typeof usageGroupings)[number], "day">) {
  switch (grouping) {
    case "account":
      return top.accounts.map((row) => [row.account, row.charged_rub, row.requests]);
    case "key":
      return top.keys.map((row) => [row.key_id, row.charged_rub, row.requests]);
    case "model":
      return top.models.map((row) => [row.model, row.charged_rub, row.requests]);
    case "provider":
      return top.providers.map((row) => [row.provider ?? "", row.charged_rub, row.requests]);
  }
}

function sum(numbers: readonly (number | null)[]): number {
  return numbers.reduce<number>((all, one) => all + (one ?? 0), 0);
}

function roublesOf(amounts: readonly string[]): string {
  return formatRoubles(amounts.reduce((all, one) => all + (parseRoubles(one) ?? 0n), 0n));
}

/** Every attempt since a time, as the records tell: those with a row, and the only ones that succeeded. */
function attemptsOf(path: string, sinceMs: number) {
  using database = new Database(path, { readonly: true });
  return database
    .query<{ provider: string; attempts: number; failed: number }, [number]>(
      `SELECT provider, count(*) AS attempts, sum(outcome <> 'ok') AS failed FROM (
        SELECT r.at, a.provider, a.outcome FROM attempts a JOIN requests r ON r.id = a.request_id
        UNION ALL SELECT at, provider, 'ok' FROM requests
          WHERE attempt_count = 1 AND id NOT IN (SELECT request_id FROM attempts))
      WHERE at >= ? GROUP BY provider ORDER BY provider`,
    )
    .all(sinceMs);
}
