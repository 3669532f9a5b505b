// The Worker of plainBun.ts that commits. Its first message is the file, each later one the number of rows to write.
import { Database } from "bun:sqlite";

declare const self: Worker;

let write: ((count: number) => void) | undefined;

self.onmessage = ({ data }: MessageEvent<string | number>) => {
  if (typeof data === "string") {
    write = writerOf(data);
  } else {
    write?.(data);
    self.postMessage("committed");
  }
};

/** One table, no index, and the same durability as Tollgate's "power". */
function writerOf(path: string): (count: number) => void {
  const sqlite = new Database(path, { create: true });
  sqlite.run("PRAGMA journal_mode = WAL");
  sqlite.run("PRAGMA synchronous = FULL");
  sqlite.run("CREATE TABLE rows (id INTEGER PRIMARY KEY, at INTEGER, tokens INTEGER)");
  const insert = sqlite.query("INSERT INTO rows (at, tokens) VALUES (?, ?)");
  return sqlite.transaction((count: number) => {
    for (let at = 0; at < count; at += 1) insert.run(Date.now(), at);
  });
}
