import { writeSync } from "node:fs";
import { upgrade } from "./earlierVersion.ts";

/** Migrates the database that the command line names. Prints a line for each report of its progress. */
const [path = ""] = process.argv.slice(2);
await upgrade(path, (step) => {
  if (step.step === "migrating") writeSync(1, `${step.copied}\n`);
});
