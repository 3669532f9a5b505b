import { Database } from "bun:sqlite";

/** The largest row id: for the next row SQLite reports SQLITE_FULL, as on a full disk. */
const LAST_ROW_ID = "9223372036854775807";
/** Every change of a serving gateway begins in one of these. */
const CHANGES = [
  "INSERT ON requests",
  "UPDATE ON requests",
  "UPDATE ON keys",
  "UPDATE OF reserved ON accounts",
  "INSERT ON response_owner",
  "UPDATE ON vouchers",
];

/**
 * From now on SQLite reports a full disk for everything that a gateway writes to this database. Unlike a full
 * disk this needs no special rights. Call the result to end it.
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
