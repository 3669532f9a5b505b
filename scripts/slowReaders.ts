/**
 * Slow readers of a provider that sends 100 MB to each as fast as it may: `bun scripts/slowReaders.ts [READERS]
 * [SECONDS]`; 200 for 60 s unless given. For each the gateway may hold less than a megabyte.
 */
import { AHEAD_MAX, GROWTH_MAX, openSlowReaders } from "../test/support/binary/slowReaders.ts";

const readersDefault = 200;
const secondsDefault = 60;

/** Prints the result. Returns whether memory and buffers stayed within their limits. */
async function readSlowly(readers: number, seconds: number): Promise<boolean> {
  const slow = await openSlowReaders();
  try {
    const seen = await slow.read(readers, seconds);
    console.log(JSON.stringify(seen));
    return seen.growth < readers * GROWTH_MAX && seen.aheadMost < AHEAD_MAX;
  } finally {
    await slow.close();
  }
}

if (import.meta.main) {
  const [readers = readersDefault, seconds = secondsDefault] = process.argv.slice(2).map(Number);
  process.exit((await readSlowly(readers, seconds)) ? 0 : 1);
}
