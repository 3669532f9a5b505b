import { runSync } from "../../steps.ts";
import { noticeTable } from "../../tables/notices.ts";
import { readSchemaVersion } from "../schema/migrations.ts";
import { connect, toStoreError, type Durability } from "../sqlite.ts";

/**
 * Records whether the last backup of a SQLite file found problems, for the gateway that tells a person. A file with the
 * schema of another version stays as it is. Throws StoreError if the file cannot be written.
 */
export function recordBackup(
  database: { readonly path: string; readonly durability: Durability },
  hasProblems: boolean,
  at: number,
): void {
  try {
    const connection = connect(database.path, database.durability);
    try {
      const { applied, known } = readSchemaVersion(connection.sqlite);
      if (applied === known)
        runSync(noticeTable(connection.queries).audited("backup", hasProblems, at));
    } finally {
      connection.sqlite.close();
    }
  } catch (error) {
    throw toStoreError(database.path, error);
  }
}
