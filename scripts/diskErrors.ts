/**
 * Makes the Nth write or sync of a gateway fail, in every way: `bun scripts/diskErrors.ts [LAST] [FIRST]`; N from 1 to
 * 250 unless given. A whole answer that a client received must be in the database afterwards.
 */
import { startLoadProvider } from "../test/support/provider/loadProvider.ts";
import { failDisk, type DiskError } from "../test/support/disk/diskError.ts";
import { cCompiler, printNotRun } from "../test/support/disk/faultyDisk.ts";
import { startGatewayOnDisk } from "../test/support/disk/powerCut.ts";

const lastDefault = 250;
const errors: readonly Omit<DiskError, "nth">[] = [
  { call: "write", error: "EIO", count: 0 },
  { call: "write", error: "EIO", count: 1 },
  { call: "write", error: "ENOSPC", count: 5 },
  { call: "write", error: "SHORT", count: 5 },
  { call: "sync", error: "EIO", count: 1 },
];

/** Prints the result for each kind of error. Returns the number of runs with problems. */
async function diskErrors(first: number, last: number): Promise<number> {
  const provider = startLoadProvider({ wordDelayMs: 0 });
  const on = await startGatewayOnDisk(provider.url, "power");
  let bad = 0;
  try {
    for (const error of errors) {
      const seen = { ...error, tried: 0, whole: 0, ended: 0, bad: 0 };
      for (let nth = first; nth <= last; nth += 1) {
        const { whole, exit, problems } = await failDisk(on, { ...error, nth });
        seen.tried += 1;
        seen.whole += whole;
        seen.ended += exit === undefined ? 0 : 1;
        seen.bad += problems.length > 0 ? 1 : 0;
        for (const problem of problems)
          console.log(`${JSON.stringify({ ...error, nth })}: ${problem}`);
      }
      bad += seen.bad;
      console.log(JSON.stringify(seen));
    }
  } finally {
    await on.close();
    provider.stop();
  }
  return bad;
}

if (import.meta.main) {
  if (cCompiler() === undefined) {
    printNotRun("errors of the disk");
    process.exit(1);
  }
  const [last = lastDefault, first = 1] = process.argv.slice(2).map(Number);
  process.exit((await diskErrors(first, last)) === 0 ? 0 : 1);
}
