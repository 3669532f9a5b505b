import { Database } from "bun:sqlite";

/** The largest key that a row may have: SQLite reports the same SQLITE_FULL behind it as on a full disk. */
const LAST_ROW_ID = "9223372036854775807";
/** Every change of a serving gateway begins in one of these. */
const CHANGES = [
  "INSERT ON requests",
  "UPDATE ON requests",
  "UPDATE ON keys",
  "INSERT ON response_owner",
];

/**
 * From now on SQLite finds no room for anything that a gateway writes to this store, as on a disk that
 * is full, but without the rights that a full disk takes. Call the result to make room again.
 */
export function fillStore(path: string): () => void {
  const sqlite = new Database(path);
  sqlite.run("PRAGMA busy_timeout = 2000");
  const all = (statements: readonly string[]): void => {
    sqlite.transaction(() => statements.forEach((statement) => sqlite.run(statement))).immediate();
  };
  all([
    "CREATE TABLE no_room (id INTEGER PRIMARY KEY AUTOINCREMENT)",
    `INSERT INTO no_room VALUES (${LAST_ROW_ID})`,
    ...CHANGES.map(
      (change, at) =>
        `CREATE TRIGGER no_room_${at} BEFORE ${change} BEGIN INSERT INTO no_room VALUES (NULL); END`,
    ),
  ]);
  return () => {
    all([...CHANGES.map((_, at) => `DROP TRIGGER no_room_${at}`), "DROP TABLE no_room"]);
    sqlite.close();
  };
}
