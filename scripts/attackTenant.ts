/**
 * One tenant attacks, and a calm one uses the same gateway: `bun scripts/attackTenant.ts [--seconds N] [--seed N]
 * [ATTACK ...]`; all attacks unless some are named by a part of their names, for 15 s each. Prints how many of its
 * answers the calm tenant got, and what the other one took unpaid. `TOLLGATE_BIN` names another executable.
 */
import { parseArgs } from "node:util";
import { runAttack, type AttackSeen } from "../test/support/attacks/attack.ts";
import { attacks, problemsOf } from "../test/support/attacks/attacks.ts";
import { inRoubles } from "../test/support/generation/money.ts";
import { drawnSeed } from "../test/support/seededRandom.ts";

/** Prints a line for each attack. Returns the problems. */
async function attackAll(
  names: readonly string[],
  seconds: number,
  seed: number,
): Promise<readonly string[]> {
  const chosen = attacks.filter(
    ({ name }) => names.length === 0 || names.some((part) => name.includes(part)),
  );
  const problems: string[] = [];
  console.log(JSON.stringify({ seed, seconds, attacks: chosen.length }));
  console.log(rowText(head));
  for (const attack of chosen) {
    try {
      const seen = await runAttack(attack, seconds, seed);
      print(seen);
      problems.push(...problemsOf(seen));
    } catch (error) {
      problems.push(`${attack.name}: ${String(error)}`);
    }
  }
  return problems;
}

const head = [
  "attack",
  "victim",
  "p50 ms",
  "p99 ms",
  "requests",
  "generated",
  "charged",
  "unpaid/h",
];
const widths = [52, 9, 7, 7, 9, 10, 10, 10];

function rowText(cells: readonly string[]): string {
  return cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" ");
}

function print(seen: AttackSeen): void {
  const { name, isPaid, victim, events, seconds, requests, generated, charged, rows } = seen;
  const unpaidAnHour = (Number(generated - charged) * 3600) / seconds;
  const cells = [
    name,
    `${victim.got}/${victim.asked}`,
    victim.p50Ms.toFixed(0),
    victim.p99Ms.toFixed(0),
    String(requests),
    inRoubles(generated),
    inRoubles(charged),
    `${inRoubles(Math.max(0, unpaidAnHour), 0)}${isPaid ? "" : " *"}`,
  ];
  console.log(rowText(cells));
  if (isPaid && rows.length > 1)
    for (const row of rows) {
      const money = [String(row.requests), inRoubles(row.generated), inRoubles(row.charged)];
      console.log(rowText([`    ${row.what}`, "", "", "", ...money]));
    }
  if (victim.got < victim.asked) console.log(`    log: ${JSON.stringify(events)}`);
  for (const [what, count] of Object.entries(victim.others))
    console.log(`    ${count} times instead of an answer: ${what}`);
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { seconds: { type: "string", default: "15" }, seed: { type: "string" } },
  });
  const seed = values.seed === undefined ? drawnSeed() : Number(values.seed);
  const problems = await attackAll(positionals, Number(values.seconds), seed);
  console.log("unpaid/h in roubles. *: the attacker gets nothing for it, so it is not judged");
  for (const problem of problems) console.log(problem);
  process.exit(problems.length === 0 ? 0 : 1);
}
