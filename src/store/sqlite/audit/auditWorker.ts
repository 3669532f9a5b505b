import type { AuditProgress } from "../../../contract/operator/auditResult.ts";
import { connect } from "../sqlite.ts";
import type { AuditReport } from "../../audit/audit.ts";
import { auditStore, type SqliteAuditOptions } from "./auditSqlite.ts";

declare const self: Worker;

/** The first message to the Worker. `isFileChecked`: another Worker checks the file. */
export interface AuditStart extends SqliteAuditOptions {
  readonly path: string;
  readonly isFileChecked: boolean;
}

/** Each message from it. The last one has a report or a failure. */
export type AuditMessage =
  | { readonly progress: AuditProgress }
  | { readonly report: AuditReport }
  | { readonly failure: string };

/** Runs one audit on a connection of its own. */
function serveAudit(): void {
  const post = (message: AuditMessage): void => self.postMessage(message);
  self.onmessage = ({ data: { path, ...options } }: MessageEvent<AuditStart>) => {
    try {
      const connection = connect(path, "process");
      const report = auditStore(connection, options, (progress) => post({ progress }));
      connection.sqlite.close();
      post({ report });
    } catch (error) {
      post({ failure: error instanceof Error ? error.message : String(error) });
    }
  };
}

if (!Bun.isMainThread) serveAudit();
