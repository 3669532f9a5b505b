import { startWorker } from "../workers.ts";
import type { AuditOptions, AuditReport } from "../../audit/audit.ts";
import type { OnAuditProgress } from "../../audit/auditProgress.ts";
import type { AuditMessage, AuditStart } from "./auditWorker.ts";
import { startIntegrityCheck } from "./integrity.ts";

/** An audit in other threads. */
export interface BackgroundAudit {
  /** Rejects if the database cannot be read, and never settles after `end`. */
  readonly report: Promise<AuditReport>;
  /** Ends it. Call it in any case. */
  end(): void;
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
  const check = startIntegrityCheck(path);
  const workers: Worker[] = [];
  const run = (isFileChecked: boolean): Promise<AuditReport> => {
    const worker = startWorker("audit/auditWorker");
    workers.push(worker);
    return auditIn(worker, { ...options, path, isFileChecked }, onProgress);
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
    else reject(new Error(data.failure));
  };
  worker.onerror = ({ message }) => reject(new Error(message));
  worker.postMessage(start);
  return promise;
}
