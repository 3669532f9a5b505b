import { readdirSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { CliFolder } from "../binary/cli.ts";
import { testedStore } from "../testedEngines.ts";
import { errorsIn } from "../world/closing.ts";
import { accounts, soakConfig, type SoakSetup } from "./setup.ts";

/** An operator who runs commands while the gateway serves. */

const everyMs = 1000;
const minuteMs = 60_000;

const runs: Readonly<Record<string, (cli: CliFolder) => Promise<unknown>>> = {
  usage: (cli) => cli.json("usage", "--by", "model"),
  requests: (cli) => cli.json("requests", "--limit", "50"),
  audit: (cli) => cli.json("audit"),
  ...(testedStore === "sqlite" && { backup: backUp }),
};

/** The commands that change nothing. */
export const commands = Object.keys(runs);

/** Credits an account each second. */
export async function bookCredits({ world }: SoakSetup, isOver: () => boolean): Promise<void> {
  const { cli, auditor } = world.gateway;
  for (let at = 0; !isOver(); at += 1) {
    const next = Bun.sleep(everyMs);
    const ref = `soak-${at}`;
    const account = accounts[at % accounts.length] ?? "";
    await cli.json("balance", "credit", account, "0.01", "--ref", ref);
    auditor.credits.push(ref);
    world.count("credits");
    await next;
  }
}

/** Applies the next config each minute, or a few times in a short run. Checks and drops the log so far. */
export async function reloadAgainAndAgain(setup: SoakSetup, isOver: () => boolean): Promise<void> {
  const { world, amount } = setup;
  const { log } = world.gateway;
  const reloadEveryMs = Math.min(minuteMs, amount * 300);
  let nextMs = performance.now() + reloadEveryMs;
  while (!isOver()) {
    await Bun.sleep(everyMs / 4);
    if (performance.now() < nextMs) continue;
    nextMs += reloadEveryMs;
    world.count("reloads");
    world.problems.push(...errorsIn(log));
    world.gateway.forgetLog();
    await world.reload(soakConfig(setup, world.counted("reloads")));
  }
}

/** Runs the other commands one after the other. */
export async function runCommands({ world }: SoakSetup, isOver: () => boolean): Promise<void> {
  while (!isOver())
    for (const [name, run] of Object.entries(runs)) {
      const next = Bun.sleep(everyMs);
      await run(world.gateway.cli);
      world.count(name);
      await next;
      if (isOver()) return;
    }
}

/** Nothing but its file may be left of it. */
async function backUp(cli: CliFolder): Promise<void> {
  const file = join(cli.folder, "soak-backup.db");
  await cli.json("backup", file);
  await rm(file);
  const left = readdirSync(cli.folder).filter((name) => name.includes("backup"));
  if (left.length > 0) throw new Error(`a backup left ${left.join(", ")}`);
}
