import type { AuditProgress } from "../../../contract/operator/auditResult.ts";
import { StoreError } from "../../storeError.ts";
import { connect } from "../sqlite.ts";
import { errorCode } from "../../../lib/systemError.ts";
import type { AuditReport } from "../../audit/audit.ts";
import { auditStore, fileProblems, useAuditCache, type SqliteAuditOptions } from "./auditSqlite.ts";

declare const self: Worker;

/** The message to the Worker: to audit, or only to check the file. `isFileChecked`: another Worker checks it. */
export type AuditStart =
  | { readonly kind: "audit"; readonly path: string; readonly options: SqliteAuditOptions }
  | { readonly kind: "file"; readonly path: string };

/** Each message from it. The last one has a report or a failure. */
export type AuditMessage =
  | { readonly progress: AuditProgress }
  | { readonly report: AuditReport }
  | { readonly isIntact: boolean }
  /** `code`: of an error of SQLite. */
  | {
      readonly failure: string;
      readonly isStoreError: boolean;
      readonly code: string | undefined;
    };

/** Runs on a connection of its own. */
function serveAudit(): void {
  const post = (message: AuditMessage): void => self.postMessage(message);
  self.onmessage = async ({ data }: MessageEvent<AuditStart>) => {
    try {
      const connection = connect(data.path, "process");
      if (data.kind === "file") {
        useAuditCache(connection.sqlite);
        post({ isIntact: fileProblems(connection.sqlite).length === 0 });
      } else {
        const report = await auditStore(connection, data.options, (progress) => post({ progress }));
        post({ report });
      }
      connection.sqlite.close();
    } catch (error) {
      const failure = error instanceof Error ? error.message : String(error);
      post({ failure, isStoreError: error instanceof StoreError, code: errorCode(error) });
    }
  };
}

if (!Bun.isMainThread) serveAudit();
