import { writeSync } from "node:fs";
import { openStore } from "../../../src/store/store.ts";

/** Migrates the database that the command line names. Prints a line for each report of its progress. */
const [path = ""] = process.argv.slice(2);
openStore({
  path,
  durability: "process",
  serving: true,
  onMigration: ({ copied }) => writeSync(1, `${copied}\n`),
}).close();
