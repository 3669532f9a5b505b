import { auditStore } from "../../../src/store/audit/audit.ts";
import { connect } from "../../../src/store/sqlite.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";

type Audited = Pick<GatewayProcess, "desk" | "auditor">;

/** All that the product's own audit and the auditor find wrong while the gateway has nothing to do. */
export function problemsOf({ desk, auditor }: Audited): string[] {
  const connection = connect(desk.database, "process");
  try {
    const { problems } = auditStore(connection, { atRest: true });
    return [...problems, ...auditor.problems()];
  } finally {
    connection.sqlite.close();
  }
}

/** The same once no request is under way, and after so long in any case: what still runs then is a problem. */
export async function problemsAtRest(gateway: Audited, withinMs: number): Promise<string[]> {
  const deadlineMs = performance.now() + withinMs;
  while (isAnyRunning(gateway.desk.database) && performance.now() < deadlineMs) await Bun.sleep(1);
  return problemsOf(gateway);
}

function isAnyRunning(path: string): boolean {
  const { sqlite } = connect(path, "process");
  try {
    return sqlite.query("SELECT 1 FROM requests WHERE status = 'running' LIMIT 1").get() !== null;
  } finally {
    sqlite.close();
  }
}
