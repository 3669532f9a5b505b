import { startWorker } from "../workers.ts";
import type { AuditOptions, AuditReport, BackgroundAudit } from "../../audit/audit.ts";
import type { OnAuditProgress } from "../../audit/auditProgress.ts";
import type { AuditMessage, AuditStart } from "./auditWorker.ts";
import { auditStore } from "./auditSqlite.ts";
import type { SqliteConnection } from "../sqlite.ts";

/**
 * The audit in half the time: a Worker checks the file at the same time. If the file is damaged, the whole audit
 * runs again in order, because the rules rely on indexes.
 */
export async function auditStoreInParallel(
  connection: Pick<SqliteConnection, "sqlite">,
  path: string,
  options: AuditOptions,
): Promise<AuditReport> {
  const check = startFileCheck(path);
  try {
    const report = await auditStore(connection, { ...options, isFileChecked: true });
    return (await check.isIntact) ? report : await auditStore(connection, options);
  } finally {
    check.end();
  }
}

/**
 * The audit of `auditStoreInParallel` without a pause of this thread: one Worker checks the records and another one the
 * file. If the file is damaged, the whole audit runs again in order.
 */
export function startBackgroundAudit(
  path: string,
  options: AuditOptions,
  onProgress: OnAuditProgress,
): BackgroundAudit {
  const check = startFileCheck(path);
  const workers: Worker[] = [];
  const run = (isFileChecked: boolean): Promise<AuditReport> => {
    const worker = startWorker("audit/auditWorker");
    workers.push(worker);
    const start = { kind: "audit", path, options: { ...options, isFileChecked } } as const;
    return auditIn(worker, start, onProgress);
  };
  const whole = async (): Promise<AuditReport> => {
    const report = await run(true);
    return (await check.isIntact) ? report : await run(false);
  };
  return {
    report: whole(),
    end() {
      check.end();
      for (const worker of workers) worker.terminate();
    },
  };
}

function auditIn(
  worker: Worker,
  start: AuditStart,
  onProgress: OnAuditProgress,
): Promise<AuditReport> {
  const { promise, resolve, reject } = Promise.withResolvers<AuditReport>();
  worker.onmessage = ({ data }: MessageEvent<AuditMessage>) => {
    if ("progress" in data) onProgress(data.progress);
    else if ("report" in data) resolve(data.report);
    else if ("failure" in data) reject(new Error(data.failure));
  };
  worker.onerror = ({ message }) => reject(new Error(message));
  worker.postMessage(start);
  return promise;
}

/** A check of the file in a Worker. `isIntact`: false also if the check failed, because the audit checks the file then. */
function startFileCheck(path: string): { readonly isIntact: Promise<boolean>; end(): void } {
  const worker = startWorker("audit/auditWorker");
  const { promise, resolve } = Promise.withResolvers<boolean>();
  worker.onmessage = ({ data }: MessageEvent<AuditMessage>) =>
    resolve("isIntact" in data && data.isIntact);
  worker.onerror = () => resolve(false);
  worker.postMessage({ kind: "file", path } satisfies AuditStart);
  return { isIntact: promise, end: () => worker.terminate() };
}
