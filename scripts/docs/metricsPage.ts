import { createPrometheusMetrics } from "../../src/telemetry/prometheus.ts";
import { type AlertRule, readAlertRules } from "../../test/support/monitoring/alertRules.ts";
import { code, linkFrom, table } from "./markdown.ts";

const introduction = `Set \`[metrics] listen = "127.0.0.1:9090"\` and scrape \`GET /metrics\`. Metrics need no key, so keep the address private.

Counters start at 0 with each start of the gateway. Durations are in seconds. Money in metrics is a float for graphs; take exact amounts
from \`tollgate usage\`, \`tollgate balance\` and the ledger. A metric of PostgreSQL, of replicas, of the limits server or of TLS is not there
without these.

Of the memory watch \`process_resident_memory_bytes\`: the runtime reserves gigabytes of virtual memory that it does not use.`;

const alertsIntroduction = `\`monitoring/alerts.yaml\` has these rules for Prometheus. "Page" means that users are affected now or will be within hours, "ticket" that it
can wait for the working day. The message of each alert says more.

Alert on each log line of level \`error\` too: not every condition has a metric. Run \`tollgate audit\` or \`tollgate backup\` each day and
alert when it exits with status 1.`;

/** The metrics as the gateway serves them, and the alerts on them. */
export async function metricsPage(page: string): Promise<string> {
  const scrape = await createPrometheusMetrics().read();
  const families = [...scrape.matchAll(/^# HELP (\w+) (.*)\n# TYPE \w+ (\w+)$/gm)];
  const rows = families.map(([, name = "", help = "", type = ""]) => [code(name), type, help]);
  const isOurs = ([name = ""]: readonly string[]) => name.startsWith("`tollgate_");
  return [
    "# Metrics and alerts",
    introduction,
    "## Metrics",
    table(["metric", "type", "meaning"], rows.filter(isOurs)),
    "## Metrics of the process",
    table(
      ["metric", "type", "meaning"],
      rows.filter((row) => !isOurs(row)),
    ),
    "## Alerts",
    alertsIntroduction,
    table(
      ["alert", "severity", "after", "condition", "what to do"],
      (await readAlertRules()).map((rule) => alertRow(page, rule)),
    ),
  ].join("\n\n");
}

function alertRow(page: string, { alert, labels, annotations, for: hold }: AlertRule): string[] {
  const { summary = "", runbook = "" } = annotations;
  const title = /#(.*)$/.exec(runbook)?.[1] ?? "";
  return [
    code(alert),
    labels["severity"] ?? "",
    hold ?? "at once",
    summary,
    linkFrom(page, runbook, title.replaceAll("-", " ")),
  ];
}
