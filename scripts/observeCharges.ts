/**
 * Looks from another process whether a charge is committed in the moment that the end of its answer arrives:
 * `bun scripts/observeCharges.ts [ANSWERS]`; 100000 unless given.
 */
import { startLoadProvider } from "../test/support/provider/loadProvider.ts";
import { oneModel } from "../test/support/gateway/gatewayConfig.ts";
import { startGatewayProcess } from "../test/support/binary/gatewayProcess.ts";
import { observeCharges } from "../test/support/binary/observer.ts";

const answersDefault = 100_000;

/** Prints the totals. Returns the number of answers that ended before their charge was committed. */
async function observe(answers: number): Promise<number> {
  const provider = startLoadProvider({ wordDelayMs: 0 });
  const sections = { database: { path: "tollgate.db", durability: "power" } };
  const gateway = await startGatewayProcess(oneModel(provider.url, sections));
  try {
    const key = await gateway.key("alice", "1000000");
    const { url, place } = gateway;
    const { ends, early } = await observeCharges({ url, key, place }, answers);
    for (const one of early) console.log(`not charged when its end was seen: ${one}`);
    console.log(JSON.stringify({ answers, ends, early: early.length }));
    return early.length;
  } finally {
    await gateway.close();
    provider.stop();
  }
}

if (import.meta.main) {
  const answers = Number(process.argv[2] ?? answersDefault);
  process.exit((await observe(answers)) === 0 ? 0 : 1);
}
