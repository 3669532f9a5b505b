import { expect, test } from "bun:test";
import { amount } from "../support/sample.ts";
import { scripts } from "../support/world/scripts.ts";

const seed = 1;
const timeoutMs = 600_000;

for (const { name, proves, unit, amounts, missing, run } of scripts) {
  const [inCi, long] = amounts;
  const much = amount(inCi, long);
  if (much === 0) continue;
  if (missing !== undefined) process.stderr.write(`NOT RUN: ${name}: ${missing}\n`);
  // `bun run prove` runs more of each.
  test.skipIf(missing !== undefined)(
    `${name}: ${much} ${unit} ${proves}`,
    async () => {
      const report = (figures: object) => process.stdout.write(`${JSON.stringify(figures)}\n`);
      const { problems, ...figures } = await run({ seed, amount: much, report });
      report({ name, ...figures });
      expect(problems).toEqual([]);
    },
    timeoutMs,
  );
}
