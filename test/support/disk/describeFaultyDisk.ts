import { describe } from "bun:test";
import { testedStore } from "../testedEngines.ts";
import { cCompiler, printNotRun } from "./faultyDisk.ts";

/** Tests of a file on a faulty disk. Without a C compiler, or with a server, they are skipped. `what`: for the report. */
export function describeFaultyDisk(what: string): typeof describe {
  const canRun = cCompiler() !== undefined;
  if (!canRun) printNotRun(what);
  return describe.skipIf(!canRun || testedStore !== "sqlite");
}
