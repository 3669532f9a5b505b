import { join } from "node:path";
import { monitoringFolder } from "./dashboard.ts";

/** A rule of docs/monitoring/alerts.yaml: https://prometheus.io/docs/prometheus/latest/configuration/alerting_rules/ */
export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export const alertsFile = join(monitoringFolder, "alerts.yaml");

export async function readAlertRules(): Promise<AlertRule[]> {
  const { groups } = Bun.YAML.parse(await Bun.file(alertsFile).text()) as {
    readonly groups: readonly { readonly rules: readonly AlertRule[] }[];
  };
  return groups.flatMap(({ rules }) => rules);
}
