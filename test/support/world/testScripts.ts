import { expect, test } from "bun:test";
import { amount } from "../sample.ts";
import type { Script } from "./script.ts";
import { scripts } from "./scripts.ts";

const seedOfCi = 1;
const timeoutMs = 600_000;

/** A test for each script of a group, in its short form. `bun run prove` runs more of each. */
export function testScripts(group: keyof typeof scripts): void {
  for (const { name, proves, unit, amounts, missing, ciSeed: seed = seedOfCi, run } of scripts[
    group
  ] as readonly Script[]) {
    const [inCi, long] = amounts;
    const much = amount(inCi, long);
    if (much === 0) continue;
    if (missing !== undefined) process.stderr.write(`NOT RUN: ${name}: ${missing}\n`);
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
}
