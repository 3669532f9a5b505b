import { AUDIT_CACHE_KILOBYTES, fileProblems } from "./integrity.ts";
import { connect } from "../sqlite.ts";

declare const self: Worker;

/** Gets the path of a database and replies whether its file is intact. After a failure the audit checks it again itself. */
function serveCheck(): void {
  self.onmessage = ({ data }: MessageEvent<string>) => {
    self.postMessage(isIntact(data));
  };
}

function isIntact(path: string): boolean {
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
