/**
 * Clients that leave their answers at random moments, over all interfaces: `bun scripts/leavers.ts [--clients N]
 * [--minutes N] [--accounts N] [--seed N] [--fast]`; 500 clients of 50 accounts for ten minutes unless given. The sum of
 * what they are charged is compared with what the providers count until each connection was aborted. `TOLLGATE_BIN`
 * names another executable.
 */
import { parseArgs } from "node:util";
import { inRoubles } from "../test/support/generation/money.ts";
import {
  openLeavers,
  type LeaversOptions,
  type LeaversSeen,
} from "../test/support/leavers/leavers.ts";
import { problemsOf } from "../test/support/leavers/limits.ts";
import { drawnSeed } from "../test/support/seededRandom.ts";

/** Prints the result. Returns the problems. */
async function leaveFor(options: LeaversOptions): Promise<readonly string[]> {
  const report: LeaversOptions["report"] = (standing) => console.log(JSON.stringify(standing));
  const leavers = await openLeavers({ ...options, report });
  let seen: LeaversSeen;
  try {
    seen = await leavers.run();
  } finally {
    await leavers.close();
  }
  printRows(seen);
  const { rows: _, chargedUnsent, standing, ...figures } = seen;
  console.log(JSON.stringify({ seed: options.seed, ...standing, ...figures }));
  console.log(`charged for requests that no provider got: ${inRoubles(chargedUnsent)} roubles`);
  console.log("audit: 0 bad");
  return problemsOf(seen);
}

function printRows({ rows }: LeaversSeen): void {
  const percent = (share: number): string => `${(share * 100).toFixed(1)}%`;
  console.table(
    rows.map(({ what, requests, generated, charged, medianOver }) => ({
      what,
      requests,
      generated: inRoubles(generated),
      charged: inRoubles(charged),
      share: generated === 0n ? "" : percent(Number(charged) / Number(generated)),
      "median over": Number.isNaN(medianOver) ? "" : percent(medianOver),
    })),
  );
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      clients: { type: "string", default: "500" },
      minutes: { type: "string", default: "10" },
      accounts: { type: "string", default: "50" },
      seed: { type: "string" },
      fast: { type: "boolean", default: false },
    },
  });
  const problems = await leaveFor({
    clients: Number(values.clients),
    seconds: Number(values.minutes) * 60,
    accounts: Number(values.accounts),
    seed: values.seed === undefined ? drawnSeed() : Number(values.seed),
    scale: { time: values.fast ? 0.1 : 1 },
  });
  for (const problem of problems) console.log(problem);
  process.exit(problems.length === 0 ? 0 : 1);
}
