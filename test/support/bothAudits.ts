import { auditStore } from "../../src/store/audit.ts";
import { connect } from "../../src/store/sqlite.ts";
import type { GatewayProcess } from "./gatewayProcess.ts";

/** All that the product's own audit and the auditor find wrong while the gateway has nothing to do. */
export function problemsOf({ desk, auditor }: Pick<GatewayProcess, "desk" | "auditor">): string[] {
  const connection = connect(desk.database, "process");
  try {
    const { problems } = auditStore(connection, { atRest: true });
    return [...problems, ...auditor.problems()];
  } finally {
    connection.sqlite.close();
  }
}
