import type { Command } from "commander";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseListen } from "../../config/address.ts";
import { checkEnvironment, forgetProxyEnvironment, loadConfig } from "../../config/load.ts";
import type { Config, Listen } from "../../config/schema.ts";
import { systemClock } from "../../lib/clock.ts";
import { fileErrorReason } from "../../lib/systemError.ts";
import { formatRoubles } from "../../lib/money.ts";
import { CommandFailure, printResult, type Result } from "../cli/print.ts";
import type { GatewayServer } from "../serve/gatewayServer.ts";
import { openLogWriter } from "../serve/logWriter.ts";
import { untilStopped } from "../serve/serve.ts";
import { globalOptions, listenForStop } from "../cli/session.ts";
import { DEMO_ACCOUNT } from "./customers.ts";
import { demoConfigToml, providerExampleToml } from "./demoConfig.ts";
import type { Month } from "./month.ts";
import { startDemoProvider, type DemoProvider } from "./provider.ts";
import { commandToPaste, shellWord } from "../../lib/terminal.ts";

interface DemoOptions {
  readonly listen?: string;
  readonly providerOnly?: true;
}

const LISTEN_DEFAULT = "127.0.0.1:8080";
const PROVIDER_LISTEN_DEFAULT = "127.0.0.1:4010";

/** Registers `tollgate demo`. */
export function addDemo(program: Command): void {
  program
    .command("demo")
    .description("run the gateway with a demo provider and a temporary database of a month's use")
    .option(
      "--listen <address>",
      `address to listen on; default: ${LISTEN_DEFAULT}, or a free port if that is in use`,
    )
    .option(
      "--provider-only",
      `run only the demo provider; default address: ${PROVIDER_LISTEN_DEFAULT}`,
    )
    .action(async (options: DemoOptions, command: Command) => {
      const { config, json: asJson } = globalOptions(command);
      if (config !== undefined) throw configRefused(config);
      checkEnvironment();
      forgetProxyEnvironment();
      if (options.providerOnly)
        await runProvider(options.listen ?? PROVIDER_LISTEN_DEFAULT, asJson);
      else await runDemo(options.listen, asJson);
    });
}

function configRefused(config: string): CommandFailure {
  return new CommandFailure(
    `demo does not take --config: \`${commandToPaste(config, "serve")}\` runs the gateway with your config`,
    { status: 2 },
  );
}

async function runProvider(listen: string, asJson: boolean): Promise<void> {
  const { host, port } = tcpAddress(listen);
  const provider = openProvider({ hostname: host, port });
  const text = (): string =>
    [
      "The demo provider is running. Add it to a config with:",
      "",
      providerExampleToml(provider.url),
    ].join("\n");
  printResult({ document: { base_url: provider.url }, text }, asJson);
  await listenForStop().first;
  await provider.stop();
}

async function runDemo(listen: string | undefined, asJson: boolean): Promise<void> {
  // SIGHUP comes when the terminal closes. The folder must be removed then too.
  const signals = listenForStop("SIGHUP");
  const folder = makeFolder();
  const provider = openProvider({});
  const writer = openLogWriter();
  const log = bufferLog(writer.write);
  try {
    const { gateway, month } = await openGateway(folder, provider, { listen, asJson, log });
    printResult(await welcome(gateway, month, join(folder, "config.toml")), asJson);
    log.release();
    await untilStopped(gateway, signals);
  } finally {
    log.release();
    await provider.stop();
    rmSync(folder, { recursive: true, force: true });
    await writer.drain();
  }
}

function makeFolder(): string {
  try {
    return mkdtempSync(join(tmpdir(), "tollgate-demo-"));
  } catch (cause) {
    throw new CommandFailure(
      `cannot create a folder in ${tmpdir()} (${fileErrorReason(cause)}): set TMPDIR to a folder that this user may write to`,
      { cause },
    );
  }
}

/**
 * Fills the database, then starts the gateway. If the user gives no address and the default port is in use, it listens
 * on a free port.
 */
async function openGateway(
  folder: string,
  provider: DemoProvider,
  { listen, asJson, log }: { listen: string | undefined; asJson: boolean; log: BufferedLog },
): Promise<{ gateway: GatewayServer; month: Month }> {
  if (listen !== undefined) tcpAddress(listen);
  const file = join(folder, "config.toml");
  const configFor = (address: string): Config => {
    const options = { listen: address, providerUrl: provider.url, silent: asJson };
    writeFileSync(file, demoConfigToml(options), { mode: 0o600 });
    return loadConfig({ path: file }).config;
  };
  const config = configFor(listen ?? LISTEN_DEFAULT);
  const { fillMonth } = await import("./month.ts");
  const month = await fillMonth(config, systemClock.epochMs());
  const { startGateway } = await import("../serve/gatewayServer.ts");
  try {
    return { gateway: await startGateway(config, log.write), month };
  } catch (error) {
    if (listen !== undefined || !(error instanceof CommandFailure)) throw error;
    return { gateway: await startGateway(configFor("127.0.0.1:0"), log.write), month };
  }
}

async function welcome(
  gateway: GatewayServer,
  { key, requests, voucher }: Month,
  config: string,
): Promise<Result> {
  const url = `${gateway.address}/v1`;
  // A browser does not send the part after # to a server.
  const page = `${gateway.address}/#key=${key}`;
  const { balance } = await gateway.app.gateway.store.accounts.findOrThrow(DEMO_ACCOUNT);
  const auth = `-H 'Authorization: Bearer ${key}'`;
  const body = JSON.stringify({
    model: "demo-large",
    stream: true,
    messages: [{ role: "user", content: "Hello, who are you?" }],
  });
  const toPaste = (...words: readonly string[]): string =>
    [ownCommand(), ...words, "--config", shellWord(config)].join(" ");
  const commands = {
    chat: `curl -sN ${url}/chat/completions ${auth} -H 'Content-Type: application/json' -d '${body}'`,
    models: `curl -s ${url}/models ${auth}`,
    balance: toPaste("balance", "show", DEMO_ACCOUNT),
    history: toPaste("balance", "history", DEMO_ACCOUNT),
    usage: toPaste("usage"),
    console: toPaste("console"),
    audit: toPaste("audit"),
  };
  const text = (): string =>
    [
      "Tollgate is running with a demo provider and a month of invented use. Open this address in a browser:",
      `  ${page}`,
      "",
      `base URL  ${url}`,
      `key       ${key}`,
      `account   ${DEMO_ACCOUNT}, with ${formatRoubles(balance)} roubles`,
      ...(voucher
        ? [`voucher   ${voucher.code}, to redeem for ${voucher.amount_rub} roubles`]
        : []),
      "",
      "Paste these commands into another terminal. A streamed answer:",
      `  ${commands.chat}`,
      "The models and their prices:",
      `  ${commands.models}`,
      "The balance and the ledger with each charge:",
      `  ${commands.balance}`,
      `  ${commands.history}`,
      `The usage of all accounts, ${requests} requests so far:`,
      `  ${commands.usage}`,
      "The operator's console, another page in a browser:",
      `  ${commands.console}`,
      "The audit of the ledger:",
      `  ${commands.audit}`,
      "",
      "Ctrl-C stops it and removes its folder. The log follows.",
    ].join("\n");
  const document = { base_url: url, key, account: DEMO_ACCOUNT, config, commands, page };
  const balances = { balance_rub: formatRoubles(balance), voucher: voucher?.code };
  return { document: { ...document, ...balances }, text };
}

/** The shell command that starts this program, from any folder and without PATH. */
function ownCommand(): string {
  const program = Bun.isStandaloneExecutable ? [process.execPath] : [process.execPath, Bun.main];
  return program.map(shellWord).join(" ");
}

function openProvider(options: { hostname?: string; port?: number }): DemoProvider {
  try {
    return startDemoProvider(options);
  } catch (cause) {
    throw new CommandFailure(
      "the demo provider cannot listen on this address: choose another with --listen",
      { cause },
    );
  }
}

function tcpAddress(text: string): Extract<Listen, { kind: "tcp" }> {
  const listen = parseListen(text);
  if (listen?.kind === "tcp") return listen;
  throw new CommandFailure("--listen takes an address such as 127.0.0.1:8080", { status: 2 });
}

/** A log that keeps its lines until the welcome text is printed. */
export interface BufferedLog {
  readonly write: (line: string) => void;
  /** Writes the buffered lines. Later lines are written at once. */
  release(): void;
}

export function bufferLog(write: (line: string) => void): BufferedLog {
  const buffered: string[] = [];
  let isReleased = false;
  return {
    write(line) {
      if (isReleased) write(line);
      else buffered.push(line);
    },
    release() {
      isReleased = true;
      for (const line of buffered.splice(0)) write(line);
    },
  };
}
