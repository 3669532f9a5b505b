import { AUDIT_CACHE_KILOBYTES, fileProblems } from "./integrity.ts";
import { connect } from "../sqlite.ts";

declare const self: Worker;

/**
 * Told the path of a file, it answers whether that is in order, beside an audit. What it cannot tell, the audit asks
 * again itself, and explains.
 */
function serveCheck(): void {
  self.onmessage = ({ data }: MessageEvent<string>) => {
    self.postMessage(isInOrder(data));
  };
}

function isInOrder(path: string): boolean {
  try {
    const { sqlite } = connect(path, "process");
    sqlite.run(`PRAGMA cache_size = -${AUDIT_CACHE_KILOBYTES}`);
    const problems = fileProblems(sqlite);
    sqlite.close();
    return problems.length === 0;
  } catch {
    return false;
  }
}

if (!Bun.isMainThread) serveCheck();
