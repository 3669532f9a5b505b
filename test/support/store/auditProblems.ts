import { auditStore } from "../../../src/store/sqlite/audit/auditSqlite.ts";
import { connect } from "../../../src/store/sqlite/sqlite.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";

type Audited = Pick<GatewayProcess, "cli" | "auditor">;

/** The problems that the product's own audit and the auditor find in an idle gateway. */
export function auditProblems({ cli, auditor }: Audited): string[] {
  const connection = connect(cli.database, "process");
  try {
    const { problems } = auditStore(connection, { atRest: true });
    return [...problems, ...auditor.problems()];
  } finally {
    connection.sqlite.close();
  }
}

/** The same once no request is running, or after `withinMs`: a request that still runs then is a problem. */
export async function auditProblemsAtRest(gateway: Audited, withinMs: number): Promise<string[]> {
  const deadlineMs = performance.now() + withinMs;
  while (isAnyRunning(gateway.cli.database) && performance.now() < deadlineMs) await Bun.sleep(1);
  return auditProblems(gateway);
}

function isAnyRunning(path: string): boolean {
  const { sqlite } = connect(path, "process");
  try {
    return sqlite.query("SELECT 1 FROM requests WHERE status = 'running' LIMIT 1").get() !== null;
  } finally {
    sqlite.close();
  }
}

/** A gateway that starts releases all reserves. The accounts that still have one. No request was sent since. */
export function reservesAfterStart({ cli }: Pick<GatewayProcess, "cli">): string[] {
  const { sqlite } = connect(cli.database, "process");
  try {
    const reserved = sqlite.query<{ name: string }, []>(
      "SELECT name FROM accounts WHERE reserved <> 0",
    );
    return reserved.all().map(({ name }) => `the start did not release the reserve of ${name}`);
  } finally {
    sqlite.close();
  }
}
