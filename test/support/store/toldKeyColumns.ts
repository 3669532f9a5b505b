import { getTableConfig } from "drizzle-orm/sqlite-core";
import { keys } from "../../../src/store/schema/schema.ts";

/** Columns that neither authentication nor money reads, and those that only a gateway writes. `id` never changes. */
const UNTOLD: ReadonlySet<string> = new Set([
  "id",
  "prefix",
  "label",
  "created_at",
  "last_used_at",
  "first_address",
  "last_address",
  "spent",
]);

/** The columns of a key whose change gateways must hear of. A new column is one of them unless it is named above. */
export const toldKeyColumns: readonly string[] = getTableConfig(keys)
  .columns.map(({ name }) => name)
  .filter((name) => !UNTOLD.has(name));
