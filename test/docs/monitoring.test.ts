import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FREE_BYTES_MIN, WAL_BYTES_MAX } from "../../src/store/open.ts";
import { scrape, type Sample } from "../support/gateway/scrape.ts";
import { alertsFile, readAlertRules } from "../support/monitoring/alertRules.ts";
import { startBusyGateways, type BusyGateways } from "../support/monitoring/busyGateways.ts";
import {
  expressionFor,
  monitoringFolder,
  panelsOf,
  readDashboard,
} from "../support/monitoring/dashboard.ts";
import {
  prometheusMissing,
  promtool,
  startPrometheus,
  type PrometheusServer,
} from "../support/monitoring/prometheusServer.ts";
import { isMatch, needsOf, type Selector } from "../support/monitoring/promql.ts";
import { untilAsync } from "../support/until.ts";

const rules = await readAlertRules();
const dashboard = await readDashboard();
const panels = panelsOf(dashboard);

/** Every expression with the place where it stands. The annotations of the dashboard and its variables are among them. */
const expressions: readonly (readonly [where: string, expression: string])[] = [
  ...rules.map(({ alert, expr }) => [alert, expr] as const),
  ...panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ refId, expr }) => [`panel ${title}, ${refId}`, expr] as const),
  ),
  ...dashboard.annotations.list.map(({ expr }) => ["annotation", expr] as const),
  ...dashboard.templating.list.flatMap(({ name, definition }) => {
    const [, selector] = /^label_values\((.+), \w+\)$/.exec(definition ?? "") ?? [];
    return selector === undefined ? [] : [[`variable ${name}`, selector] as const];
  }),
].map(([where, expression]) => [where, expressionFor(expression, "10s")] as const);

let gateways: BusyGateways;
/** All that is served, with the labels that Prometheus adds, and the series that Prometheus makes itself. */
let series: readonly Sample[];

beforeAll(async () => {
  gateways = await startBusyGateways();
  const scrapes = await Promise.all(
    gateways.metricsUrls.map(async (url) => {
      const added = { job: "tollgate", instance: new URL(url).host };
      const { samples } = await scrape(url);
      const up = { name: "up", labels: {}, value: 1 };
      return [...samples, up].map(({ name, labels, value }) => ({
        name,
        labels: Object.assign({}, labels, added),
        value,
      }));
    }),
  );
  const alerts = rules.map(({ alert, labels }) => ({
    name: "ALERTS",
    labels: { ...labels, alertname: alert, alertstate: "firing", job: "tollgate" },
    value: 1,
  }));
  series = [...scrapes.flat(), ...alerts];
});
afterAll(() => gateways[Symbol.asyncDispose]());

const seriesOf = (selector: Selector): readonly Sample[] =>
  series.filter(({ name, labels }) => name === selector.name && isMatch(labels, selector));

describe("rules and dashboard use what is really served", () => {
  test.each(expressions)("%s: each selector finds a series", (_, expression) => {
    const { selectors } = needsOf(expression);
    expect(selectors).not.toBeEmpty();
    for (const selector of selectors) {
      const labels = new Set(
        series
          .filter(({ name }) => name === selector.name)
          .flatMap((one) => Object.keys(one.labels)),
      );
      for (const { label } of selector.matchers)
        expect([selector.name, ...labels]).toContain(label);
      expect([selector, seriesOf(selector).length > 0]).toEqual([selector, true]);
    }
  });

  test.each(expressions)("%s: each label of a grouping is there", (_, expression) => {
    const { selectors, groupings } = needsOf(expression);
    const labels = selectors.flatMap(seriesOf).flatMap((one) => Object.keys(one.labels));
    for (const label of groupings) expect([...new Set(labels)]).toContain(label);
  });

  test("a legend names labels that its series has", () => {
    for (const { title, targets = [] } of panels) {
      for (const { expr, legendFormat } of targets) {
        const { selectors, groupings } = needsOf(expressionFor(expr, "10s"));
        const labels = selectors.flatMap(seriesOf).flatMap((one) => Object.keys(one.labels));
        const isGrouped = /\b(?:sum|min|max|count)\b/.test(expr);
        for (const [, label = ""] of legendFormat.matchAll(/\{\{(\w+)\}\}/g)) {
          expect([title, ...(isGrouped ? groupings : labels)]).toContain(label);
        }
      }
    }
  });

  test.each(["tollgate_no_such_metric", 'tollgate_requests_total{outcome="finished"}'])(
    "the same check finds nothing for %s",
    (expression) => {
      const { selectors } = needsOf(expression);
      expect(selectors.map((selector) => seriesOf(selector).length)).toEqual([0]);
    },
  );
});

describe("the alert rules", () => {
  test("say how severe they are, what is wrong, what to do, and where to read more", () => {
    for (const { alert, labels, annotations } of rules) {
      const { summary, description, runbook = "", ...more } = annotations;
      expect([alert, Object.keys(labels), more]).toEqual([alert, ["severity"], {}]);
      expect(["page", "ticket"]).toContain(labels["severity"] ?? "");
      expect(summary).toEndWith(".");
      expect(description).toEndWith(".");
      // The page is short, or a section of it is named. docs/pages.test.ts looks whether they exist.
      expect(runbook).toMatch(/^docs\/.+\.md(?:#.+)?$/);
    }
  });

  test("have the limits of the gateway itself", () => {
    const expressionOf = (alert: string) => rules.find((rule) => rule.alert === alert)?.expr;
    expect(expressionOf("TollgateDiskLow")).toBe(
      `tollgate_store_free_bytes < ${FREE_BYTES_MIN} + tollgate_store_log_bytes`,
    );
    expect(expressionOf("TollgateDiskFillsSoon")).toEndWith(` < ${FREE_BYTES_MIN}`);
    expect(expressionOf("TollgateWriteAheadLogGrows")).toEndWith(` > ${WAL_BYTES_MAX}`);
  });

  test("are each fired by a unit test", async () => {
    const unitTests = await Bun.file(join(monitoringFolder, "alerts.test.yaml")).text();
    for (const { alert } of rules) expect(unitTests).toContain(`alertname="${alert}"`);
  });
});

describe("the dashboard", () => {
  test("takes its data source, job and instance from variables", async () => {
    const { list } = dashboard.templating;
    expect(list.map(({ name, type }) => [name, type])).toEqual([
      ["datasource", "datasource"],
      ["job", "query"],
      ["instance", "query"],
    ]);
    const text = await Bun.file(join(monitoringFolder, "dashboard.json")).text();
    const sources = [...text.matchAll(/"uid": "([^"]*)"/g)].map(([, uid]) => uid);
    expect(new Set(sources)).toEqual(new Set(["${datasource}", "tollgate"]));
    for (const { title, targets = [] } of panels) {
      for (const { expr } of targets)
        expect([title, expr]).toEqual([title, expect.stringContaining('job=~"$job"')]);
    }
  });

  test("has panels with a number, a text, a unit and a place of their own", () => {
    const all = dashboard.panels.flatMap((panel) => [panel, ...(panel.panels ?? [])]);
    const numbers = all.map(({ id }) => id);
    expect(new Set(numbers).size).toBe(numbers.length);
    expect(dashboard.schemaVersion).toBe(39);
    for (const { title, description, fieldConfig, datasource, targets, gridPos, row } of panels) {
      expect([title, row === "", datasource?.type]).toEqual([title, false, "prometheus"]);
      expect([title, description]).toEqual([title, expect.stringMatching(/\w.*[.)]$/)]);
      expect([title, fieldConfig?.defaults.unit]).toEqual([title, expect.stringMatching(/\w/)]);
      expect(targets?.length).toBeGreaterThan(0);
      expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
    }
    const open = dashboard.panels;
    const overlaps = open.flatMap((one, at) =>
      open
        .slice(at + 1)
        .filter(({ gridPos: other }) => areOverlapping(one.gridPos, other))
        .map(({ title }) => [one.title, title]),
    );
    expect(overlaps).toEqual([]);
  });
});

type Place = (typeof dashboard.panels)[number]["gridPos"];

function areOverlapping(one: Place, other: Place): boolean {
  return (
    one.x < other.x + other.w &&
    other.x < one.x + one.w &&
    one.y < other.y + other.h &&
    other.y < one.y + one.h
  );
}

if (prometheusMissing !== undefined)
  process.stderr.write(`NOT RUN: the tests with Prometheus: ${prometheusMissing}\n`);

describe.skipIf(prometheusMissing !== undefined)("Prometheus' own checker", () => {
  test("accepts the rules, and their unit tests pass", async () => {
    const checked = await promtool(["check", "rules", alertsFile]);
    expect(checked).toEqual({
      status: 0,
      output: expect.stringContaining(`${rules.length} rules`),
    });
    const tested = await promtool(["test", "rules", join(monitoringFolder, "alerts.test.yaml")]);
    expect(tested).toEqual({ status: 0, output: expect.stringContaining("SUCCESS") });
  });

  test("reads every expression of the dashboard", async () => {
    const folder = await mkdtemp(join(tmpdir(), "tollgate-rules-"));
    try {
      const file = join(folder, "dashboard.yaml");
      const records = expressions.map(([, expr], at) => ({ record: `expression_${at}`, expr }));
      await Bun.write(file, JSON.stringify({ groups: [{ name: "dashboard", rules: records }] }));
      const { status, output } = await promtool(["check", "rules", file]);
      expect([status, output]).toEqual([0, expect.stringContaining(`${records.length} rules`)]);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  test("finds no fault in what gateways serve", async () => {
    for (const url of gateways.metricsUrls) {
      const { text } = await scrape(url);
      expect(await promtool(["check", "metrics"], text)).toEqual({ status: 0, output: "" });
    }
  });
});

describe.skipIf(prometheusMissing !== undefined)(
  "a Prometheus server that scrapes gateways",
  () => {
    let prometheus: PrometheusServer;
    const query = async (expression: string): Promise<readonly unknown[]> =>
      ((await prometheus.ask("/api/v1/query", { query: expression })) as { result: unknown[] })
        .result;

    beforeAll(async () => {
      prometheus = await startPrometheus(gateways.metricsUrls.map((url) => new URL(url).host));
      const areScraped = (times: number) =>
        untilAsync(`both gateways were scraped ${times} times`, async () => {
          const seen = `count_over_time(tollgate_store_queued_writes[1m]) >= ${times}`;
          return (await query(seen)).length === gateways.metricsUrls.length;
        });
      await areScraped(1);
      await gateways.serve();
      await areScraped(3);
    });
    afterAll(() => prometheus[Symbol.asyncDispose]());

    test("evaluates every rule, and fires those that are due", async () => {
      type Evaluated = { readonly name: string; readonly health: string; readonly state: string };
      let found: readonly Evaluated[] = [];
      await untilAsync("every rule was evaluated", async () => {
        const { groups } = (await prometheus.ask("/api/v1/rules")) as {
          groups: readonly { readonly rules: readonly Evaluated[] }[];
        };
        found = groups.flatMap((group) => group.rules);
        return found.every(({ health }) => health !== "unknown");
      });
      const healthByName = Object.fromEntries(found.map(({ name, health }) => [name, health]));
      expect(healthByName).toEqual(Object.fromEntries(rules.map(({ alert }) => [alert, "ok"])));
      const inState = (state: string) =>
        found.filter((rule) => rule.state === state).map(({ name }) => name);
      expect(inState("firing").sort()).toEqual([
        "TollgateAuditFailed",
        "TollgateBalanceLow",
        "TollgateMoneyWrittenOff",
        "TollgateProviderRefusesKey",
        "TollgateRouteNotFound",
      ]);
      expect(inState("pending")).toEqual(
        expect.arrayContaining([
          "TollgateCertificateExpires",
          "TollgateDatabaseUnreachable",
          "TollgateLimitsServerUnused",
        ]),
      );
      const { alerts } = (await prometheus.ask("/api/v1/alerts")) as { alerts: readonly object[] };
      expect(JSON.stringify(alerts)).not.toContain("error expanding template");
    });

    test("answers every panel with data", async () => {
      const empty: string[] = [];
      for (const { title, targets = [], fieldConfig } of panels) {
        const results = await Promise.all(
          targets.map(({ expr }) => query(expressionFor(expr, "10s"))),
        );
        const isEmpty = results.every((result) => result.length === 0);
        if (isEmpty && fieldConfig?.defaults.noValue === undefined) empty.push(title);
      }
      expect(empty).toEqual([]);
    });

    test("answers the panels of the other rows with data of a gateway with SQLite alone", async () => {
      const instance = new URL(gateways.metricsUrls[0] ?? "").host;
      const empty: string[] = [];
      for (const { title, row, targets = [], fieldConfig } of panels) {
        if (row.includes("empty with SQLite") || row.includes("empty otherwise")) continue;
        const results = await Promise.all(
          targets.map(({ expr }) =>
            query(expressionFor(expr.replaceAll("$instance", instance), "10s")),
          ),
        );
        const isEmpty = results.every((result) => result.length === 0);
        if (isEmpty && fieldConfig?.defaults.noValue === undefined) empty.push(title);
      }
      expect(empty).toEqual([]);
    });
  },
);
