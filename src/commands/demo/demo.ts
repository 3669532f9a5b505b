import type { Command } from "commander";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseListen } from "../../config/address.ts";
import { checkEnvironment, forgetProxyEnvironment, loadConfig } from "../../config/load.ts";
import type { Listen } from "../../config/schema.ts";
import { newKey } from "../../administration/keys.ts";
import { fileErrorReason } from "../../lib/systemError.ts";
import { NANO_ROUBLES_PER_ROUBLE } from "../../lib/money.ts";
import { CommandFailure, printResult } from "../cli/print.ts";
import type { GatewayServer } from "../serve/gatewayServer.ts";
import { openLogWriter } from "../serve/logWriter.ts";
import { untilStopped } from "../serve/serve.ts";
import { globalOptions, listenForStop } from "../cli/session.ts";
import { commandToPaste, shellWord } from "../cli/format.ts";
import { startDemoProvider, type DemoProvider } from "./provider.ts";

interface DemoOptions {
  readonly listen?: string;
  readonly providerOnly?: true;
}

const LISTEN_DEFAULT = "127.0.0.1:8080";
const PROVIDER_LISTEN_DEFAULT = "127.0.0.1:4010";
const ACCOUNT = "demo";
const FUNDS = 100n * NANO_ROUBLES_PER_ROUBLE;

/** Registers `tollgate demo`. */
export function addDemo(program: Command): void {
  program
    .command("demo")
    .description("run the gateway with a temporary database and a demo provider")
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
      providerToml(provider.url),
      modelToml("demo-large"),
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
    const gateway = await openGateway(folder, provider, { listen, asJson, log });
    printResult(welcome(gateway, fundedKey(gateway), join(folder, "config.toml")), asJson);
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

/** If the user gives no address and the default port is in use, it listens on a free port. */
async function openGateway(
  folder: string,
  provider: DemoProvider,
  { listen, asJson, log }: { listen: string | undefined; asJson: boolean; log: BufferedLog },
): Promise<GatewayServer> {
  const { startGateway } = await import("../serve/gatewayServer.ts");
  const file = join(folder, "config.toml");
  const open = (address: string): Promise<GatewayServer> => {
    writeFileSync(file, configToml(address, provider.url, asJson), { mode: 0o600 });
    return startGateway(loadConfig({ path: file }).config, log.write);
  };
  if (listen !== undefined) {
    tcpAddress(listen);
    return open(listen);
  }
  try {
    return await open(LISTEN_DEFAULT);
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    return open("127.0.0.1:0");
  }
}

/** Creates an account with money, and returns a key for it. */
function fundedKey({ app }: GatewayServer): string {
  const actor = { name: "demo", at: app.gateway.clock.epochMs() };
  const { secret, stored } = newKey();
  app.gateway.store.admin.createKey(actor, ACCOUNT, {
    ...stored,
    label: "demo",
    createdAt: actor.at,
  });
  app.gateway.store.admin.changeBalance(actor, {
    account: ACCOUNT,
    kind: "credit",
    amount: FUNDS,
    ref: null,
    note: "demo",
  });
  return secret;
}

function welcome(gateway: GatewayServer, key: string, config: string) {
  const url = `${gateway.address}/v1`;
  const auth = `-H 'Authorization: Bearer ${key}'`;
  const body = JSON.stringify({
    model: "demo-large",
    stream: true,
    messages: [{ role: "user", content: "Hello, who are you?" }],
  });
  const commands = {
    chat: `curl -sN ${url}/chat/completions ${auth} -H 'Content-Type: application/json' -d '${body}'`,
    models: `curl -s ${url}/models ${auth}`,
    balance: `${ownCommand()} balance show ${ACCOUNT} --config ${shellWord(config)}`,
    history: `${ownCommand()} balance history ${ACCOUNT} --config ${shellWord(config)}`,
    usage: `${ownCommand()} usage --config ${shellWord(config)}`,
    audit: `${ownCommand()} audit --config ${shellWord(config)}`,
  };
  const text = (): string =>
    [
      "Tollgate is running with a demo provider and 100 roubles on the account `demo`.",
      "",
      `base URL  ${url}`,
      `key       ${key}`,
      "",
      "Paste these commands into another terminal. A streamed answer:",
      `  ${commands.chat}`,
      "The models and their prices:",
      `  ${commands.models}`,
      "The balance and the ledger with each charge:",
      `  ${commands.balance}`,
      `  ${commands.history}`,
      "The usage and the audit of the ledger:",
      `  ${commands.usage}`,
      `  ${commands.audit}`,
      "",
      "Ctrl-C stops it and removes its folder. The log follows.",
    ].join("\n");
  return { document: { base_url: url, key, account: ACCOUNT, config, commands }, text };
}

/** The shell command that starts this program, from any folder and without PATH. */
function ownCommand(): string {
  const program = Bun.isStandaloneExecutable ? [process.execPath] : [process.execPath, Bun.main];
  return program.map(shellWord).join(" ");
}

function configToml(listen: string, providerUrl: string, asJson: boolean): string {
  // With --json the output is one JSON document, without log lines.
  const level = asJson ? "silent" : "info";
  return [
    `[server]\nlisten = "${listen}"\nshutdown_grace = "2s"\n`,
    `[database]\npath = "demo.db"\n`,
    `[log]\nlevel = "${level}"\nformat = "pretty"\n`,
    providerToml(providerUrl),
    modelToml("demo-large"),
    modelToml("demo-small"),
    embeddingModelToml("demo-vectors"),
  ].join("\n");
}

function providerToml(url: string): string {
  return `[[providers]]\nid = "demo"\nbase_url = "${url}"\n`;
}

function modelToml(id: string): string {
  const price = id === "demo-large" ? 250_000 : 50_000;
  return [
    "[[models]]",
    `id = "${id}"`,
    `rub_input_per_1m = ${price}`,
    `rub_output_per_1m = ${price * 8}`,
    "max_output_tokens = 4096",
    "",
    "[[models.routes]]",
    'provider = "demo"',
    "responses = true",
    "",
  ].join("\n");
}

function embeddingModelToml(id: string): string {
  return [
    "[[models]]",
    `id = "${id}"`,
    'kind = "embedding"',
    "rub_input_per_1m = 2000",
    "",
    "[[models.routes]]",
    'provider = "demo"',
    "",
  ].join("\n");
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
