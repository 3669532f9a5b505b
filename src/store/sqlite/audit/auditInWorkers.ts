import type { AuditOptions, AuditReport, AuditWatch } from "../../audit/audit.ts";
import { assert } from "../../../lib/assert.ts";
import { StoreError } from "../../storeError.ts";
import { startWorker } from "../workers.ts";
import type { AuditMessage, AuditStart } from "./auditWorker.ts";

/**
 * The audit in half the time, and without a pause of this thread: one Worker checks the records and another one the file. If
 * the file is damaged, the whole audit runs again in order, because the rules rely on indexes.
 */
export async function auditInWorkers(
  path: string,
  options: AuditOptions,
  watch: AuditWatch = {},
): Promise<AuditReport> {
  const workers: Worker[] = [];
  const end = (): void => {
    for (const worker of workers) worker.terminate();
  };
  watch.signal?.addEventListener("abort", end);
  const run = (start: AuditStart): Promise<Answer> => {
    const worker = startWorker("audit/auditWorker");
    workers.push(worker);
    return answerOf(worker, start, watch);
  };
  const records = async (isFileChecked: boolean): Promise<AuditReport> =>
    reportIn(await run({ kind: "audit", path, options: { ...options, isFileChecked } }));
  try {
    const file = run({ kind: "file", path });
    const report = await records(true);
    const found = await file;
    return "isIntact" in found && found.isIntact ? report : await records(false);
  } finally {
    watch.signal?.removeEventListener("abort", end);
    end();
  }
}

type Answer = Exclude<AuditMessage, { readonly progress: unknown }>;

/** The last message of a Worker. */
function answerOf(worker: Worker, start: AuditStart, { onProgress }: AuditWatch): Promise<Answer> {
  const { promise, resolve } = Promise.withResolvers<Answer>();
  worker.onmessage = ({ data }: MessageEvent<AuditMessage>) => {
    if ("progress" in data) onProgress?.(data.progress);
    else resolve(data);
  };
  worker.onerror = ({ message }) =>
    resolve({ failure: message, isStoreError: false, code: undefined });
  worker.postMessage(start);
  return promise;
}

/** Throws the error of the Worker. */
function reportIn(answer: Answer): AuditReport {
  if ("report" in answer) return answer.report;
  assert("failure" in answer, "the Worker has audited the records");
  const { failure, isStoreError, code } = answer;
  if (isStoreError) throw new StoreError(failure);
  throw Object.assign(new Error(failure), { code });
}
