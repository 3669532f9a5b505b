import type { Config } from "../config/schema.ts";
import type { DatabaseServices, ServedDatabase } from "./servedDatabase.ts";
import { openSqliteDatabase } from "./sqlite.ts";

/** Opens the database of the config for a serving gateway. Rejects with StoreError. */
export async function openDatabase(
  database: Config["database"],
  services: DatabaseServices,
): Promise<ServedDatabase> {
  if (database.engine === "sqlite") return await openSqliteDatabase(database, services);
  // Loaded on demand: most gateways have a SQLite file, and their start stays as fast as it is.
  const { openPostgresDatabase } = await import("./postgres.ts");
  return await openPostgresDatabase(database, services);
}
