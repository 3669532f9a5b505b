import type { Command } from "commander";
import { statSync } from "node:fs";
import { hostname } from "node:os";
import type { Operator } from "../administration/operator.ts";
import { isLoopback, parseListen } from "../config/address.ts";
import { databaseName } from "../config/database.ts";
import { ConfigError, forgetProxyEnvironment, loadConfig } from "../config/load.ts";
import type { Config, Listen } from "../config/schema.ts";
import { createConsoleServer } from "../http/console/server.ts";
import { ConsoleSession, type SessionEnd } from "../http/console/session.ts";
import { systemClock } from "../lib/clock.ts";
import { systemRandom } from "../lib/random.ts";
import { StoreError } from "../store/store.ts";
import { CommandFailure, printNotice, printResult, type Result } from "./cli/print.ts";
import { globalOptions, listenForStop, runSession, type Session } from "./cli/session.ts";
import { openListener, type Listener } from "./serve/listener.ts";
import { shellWord } from "../lib/terminal.ts";

const LISTEN_DEFAULT = "127.0.0.1:8090";
const ANY_PORT = "127.0.0.1:0";
/** Only the user who runs the console may connect. */
const SOCKET_MODE = 0o600;
const LOOK_MS = 1000;

/** Registers `tollgate console`. */
export function addConsole(program: Command): void {
  program
    .command("console")
    .summary("show accounts, keys, requests and providers in a browser, and change them")
    .description(
      "Serves the operator's page on this machine for as long as the command runs, and prints its address. The address works once.",
    )
    .option(
      "--listen <address>",
      `loopback address or unix:/path; default: ${LISTEN_DEFAULT}, or a free port if that is in use`,
    )
    .action(async (options: { listen?: string }, command: Command) => {
      const { json } = globalOptions(command);
      const listen = options.listen === undefined ? undefined : localAddress(options.listen);
      await runSession(command, "console", (session) => run(session, listen, json));
    });
}

async function run(session: Session, listen: Listen | undefined, asJson: boolean): Promise<void> {
  const signals = listenForStop("SIGHUP");
  // The console asks the gateway of this machine for its metrics.
  forgetProxyEnvironment();
  const login = new ConsoleSession(systemClock, systemRandom);
  const operator = operatorOf(session);
  const listener = await open(() => createConsoleServer(operator, login), listen);
  const watch = setInterval(() => login.endIfIdle(), LOOK_MS);
  try {
    printResult(welcome(listener.address, login.token), asJson);
    const end = await Promise.race([signals.first, login.ended]);
    if (end !== undefined) explain(end);
  } finally {
    clearInterval(watch);
    login.end();
    await listener.close(Promise.resolve());
  }
}

/** Throws CommandFailure where the reason must not be missed. */
function explain(end: SessionEnd): void {
  if (end === "wrongTokens")
    throw new CommandFailure(
      "ten wrong tokens: the console ends; if it was not you, find out which program of this machine tried",
    );
  printNotice(
    end === "idle" ? "no use for an hour: the console ends" : "the console was ended in the page",
  );
}

/**
 * The context of each request. The config is read again when its file has changed; an invalid one changes nothing. Throws
 * StoreError if the database is another file by now: what is written to the opened one would be lost.
 */
function operatorOf(session: Session): () => Operator {
  const { store } = session;
  const { file } = session.config;
  let config: Config = session.config;
  let changedAtMs = changeTimeOf(file);
  return () => {
    if (store.isFileReplaced())
      throw new StoreError(
        `the database ${databaseName(config.database)} was replaced or removed: nothing was changed; run \`tollgate console\` again`,
      );
    const nowMs = changeTimeOf(file);
    if (nowMs !== changedAtMs) {
      changedAtMs = nowMs;
      // The store that is open stays the one that is shown and changed.
      config = { ...(reloaded(file) ?? config), database: session.config.database };
    }
    return { config, store, actor: session.actor };
  };
}

function reloaded(path: string): Config | undefined {
  try {
    return loadConfig({ path, secrets: "unread" }).config;
  } catch (error) {
    // The page shows the problems of the config.
    if (error instanceof ConfigError) return undefined;
    throw error;
  }
}

function changeTimeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function localAddress(text: string): Listen {
  const listen = parseListen(text);
  if (listen === undefined)
    throw new CommandFailure("--listen takes an address such as 127.0.0.1:8090 or unix:/path", {
      status: 2,
    });
  if (listen.kind === "unix" || isLoopback(listen.host)) return listen;
  throw new CommandFailure(
    `--listen ${listen.host}: the console listens on loopback addresses and unix sockets only, because who reaches it may move money; \`ssh -L\` brings it to another machine`,
    { status: 2 },
  );
}

async function open(
  make: Parameters<typeof openListener>[0],
  listen: Listen | undefined,
): Promise<Listener> {
  const openAt = (address: Listen): Promise<Listener> =>
    openListener(make, {
      listen: address,
      tls: undefined,
      socketMode: SOCKET_MODE,
      purpose: "the console",
    });
  if (listen !== undefined) return openAt(listen);
  try {
    return await openAt(localAddress(LISTEN_DEFAULT));
  } catch (error) {
    if (!(error instanceof CommandFailure)) throw error;
    return openAt(localAddress(ANY_PORT));
  }
}

const FORWARDED_PORT = 8090;

function welcome(listening: string, token: string): Result {
  const isSocket = listening.startsWith("/");
  const origin = isSocket ? `http://127.0.0.1:${FORWARDED_PORT}` : listening;
  const target = isSocket ? listening : listening.replace("http://", "");
  const port = new URL(origin).port;
  const address = `${origin}/#token=${token}`;
  // Without the option ssh stays when another program has the port, and that program would get the token.
  const ssh = `ssh -N -o ExitOnForwardFailure=yes -L ${shellWord(`${port}:${target}`)} ${shellWord(hostname())}`;
  const document = { address, listen: listening, ssh };
  const forward = "On another machine, run this first, and then open the same address there:";
  const text = (): string =>
    [
      ...(isSocket
        ? ["Run this on your machine, and then open the address there. It works once:"]
        : ["Open this address in a browser. It works once:"]),
      ...(isSocket ? [`  ${ssh}`, `  ${address}`] : [`  ${address}`, forward, `  ${ssh}`]),
      "",
      "Ctrl-C ends the console.",
    ].join("\n");
  return { document, text };
}
