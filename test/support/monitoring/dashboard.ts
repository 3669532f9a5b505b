import { join, resolve } from "node:path";

export const monitoringFolder = resolve(import.meta.dir, "../../../docs/monitoring");

/** The parts of Grafana's dashboard that the tests read: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/ */
export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: { readonly type: string; readonly uid: string };
  readonly targets?: readonly {
    readonly refId: string;
    readonly expr: string;
    readonly legendFormat: string;
  }[];
  readonly fieldConfig?: {
    readonly defaults: { readonly unit: string; readonly noValue?: string };
  };
  readonly gridPos: {
    readonly x: number;
    readonly y: number;
    readonly w: number;
    readonly h: number;
  };
  /** Of a row that is closed. The panels of an open row follow it in the list. */
  readonly panels?: readonly Panel[];
}

export interface Dashboard {
  readonly title: string;
  readonly uid: string;
  readonly schemaVersion: number;
  readonly panels: readonly Panel[];
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
  readonly templating: {
    readonly list: readonly {
      readonly name: string;
      readonly type: string;
      readonly definition?: string;
    }[];
  };
}

/** A panel that is no row, with the title of its row. */
export interface PlacedPanel extends Panel {
  readonly row: string;
}

export async function readDashboard(): Promise<Dashboard> {
  return (await Bun.file(join(monitoringFolder, "dashboard.json")).json()) as Dashboard;
}

export function panelsOf({ panels }: Dashboard): PlacedPanel[] {
  let row = "";
  return panels.flatMap((panel) => {
    if (panel.type !== "row") return [{ ...panel, row }];
    row = panel.title;
    return (panel.panels ?? []).map((inner) => Object.assign({ row }, inner));
  });
}

/** The expression as Grafana sends it for all instances of the job, with this span for rates. */
export function expressionFor(expression: string, rateInterval: string): string {
  return expression
    .replaceAll("$__rate_interval", rateInterval)
    .replaceAll("$__range", "6h")
    .replaceAll("$job", "tollgate")
    .replaceAll("$instance", ".*");
}
