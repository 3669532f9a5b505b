import { rm } from "node:fs/promises";
import { join } from "node:path";
import type { CliFolder } from "../binary/cli.ts";
import type { GatewayConfig } from "../gateway/gatewayConfig.ts";
import type { GatewayProcess } from "../binary/gatewayProcess.ts";
import type { LogLine } from "../binary/servingProcess.ts";

/** An operator who runs commands while the gateway serves. */
export interface SoakOperator {
  readonly gateway: GatewayProcess;
  readonly accounts: readonly string[];
  readonly reloadEveryMs: number;
  /** The config of the so manieth reload. */
  readonly configOf: (reload: number) => GatewayConfig;
  readonly isOver: () => boolean;
}

/** The commands that succeeded. */
export interface SoakDone {
  /** The refs of the credits. */
  readonly refs: string[];
  reloads: number;
  /** How often each of the other commands succeeded. */
  readonly commands: Record<string, number>;
  readonly problems: string[];
}

const everyMs = 1000;

/** Credits an account each second, reloads now and then, and runs the other commands in between. */
export async function operate(operator: SoakOperator, done: SoakDone): Promise<void> {
  const { problems } = done;
  const failed = (error: unknown): number => problems.push(String(error));
  await Promise.all([
    bookCredits(operator, done).catch(failed),
    reloadAgainAndAgain(operator, done).catch(failed),
    runCommands(operator, done).catch(failed),
  ]);
}

async function bookCredits({ gateway, accounts, isOver }: SoakOperator, done: SoakDone) {
  while (!isOver()) {
    const next = Bun.sleep(everyMs);
    const ref = `soak-${done.refs.length}`;
    const account = accounts[done.refs.length % accounts.length] ?? "";
    await gateway.cli.json("balance", "credit", account, "0.01", "--ref", ref);
    done.refs.push(ref);
    await next;
  }
}

async function reloadAgainAndAgain(operator: SoakOperator, done: SoakDone): Promise<void> {
  const { reloadEveryMs, isOver } = operator;
  let nextMs = performance.now() + reloadEveryMs;
  while (!isOver()) {
    await Bun.sleep(everyMs / 4);
    if (performance.now() < nextMs) continue;
    nextMs += reloadEveryMs;
    await reload(operator, done);
  }
}

/** Writes and applies the next config. Checks and drops the log so far. */
export async function reload(
  { gateway, configOf }: Pick<SoakOperator, "gateway" | "configOf">,
  done: SoakDone,
): Promise<void> {
  await gateway.configure(configOf(done.reloads + 1));
  done.problems.push(...errorsIn(gateway.log));
  gateway.forgetLog();
  gateway.signal("SIGHUP");
  await gateway.logged("it has reloaded", ({ msg }) => msg === "config reloaded");
  done.reloads += 1;
}

async function runCommands({ gateway, isOver }: SoakOperator, done: SoakDone): Promise<void> {
  const { cli, place } = gateway;
  const commands: Readonly<Record<string, () => Promise<unknown>>> = {
    usage: () => cli.json("usage", "--by", "model"),
    requests: () => cli.json("requests", "--limit", "50"),
    audit: () => cli.json("audit"),
    ...("path" in place ? { backup: () => backUp(cli) } : {}),
  };
  while (!isOver()) {
    for (const [name, run] of Object.entries(commands)) {
      const next = Bun.sleep(everyMs);
      await run();
      done.commands[name] = (done.commands[name] ?? 0) + 1;
      await next;
      if (isOver()) return;
    }
  }
}

async function backUp(cli: CliFolder): Promise<void> {
  const file = join(cli.folder, "soak-backup.db");
  await cli.json("backup", file);
  await rm(file);
}

/** The failure of a provider is not an error here: the client's answer is checked. */
export function errorsIn(log: readonly LogLine[]): string[] {
  return log
    .filter(({ level }) => level === "error" || level === "fatal")
    .filter(({ msg, error }) => msg !== "request" || !String(error).startsWith("UpstreamError"))
    .map((line) => `the log has: ${JSON.stringify(line)}`);
}
