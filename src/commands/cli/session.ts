import type { Command } from "commander";
import { existsSync, readFileSync } from "node:fs";
import { loadConfig } from "../../config/load.ts";
import type { Config } from "../../config/schema.ts";
import { systemClock } from "../../lib/clock.ts";
import {
  emptyFileProblem,
  toStoreError,
  missingFolderProblem,
  openStore,
  refuseOrphanedWal,
  type Actor,
  type Store,
} from "../../store/store.ts";
import { CommandFailure, printResult, type Result } from "./print.ts";
import { commandToPaste } from "./format.ts";

/** The options that every command takes. */
export interface GlobalOptions {
  readonly config: string | undefined;
  readonly json: boolean;
}

/** What a command that works on the store is given. */
export interface Session {
  readonly config: Config;
  /** Opened when it is first asked for: a command that fails before that leaves no new database behind. */
  readonly store: Store;
  /** Who runs the command, and when. */
  readonly actor: Actor;
  /** A line for a shell that runs another command on the same config. */
  readonly toPaste: (...words: readonly string[]) => string;
}

/** Only a command that makes an account makes a database for it: of one that was just made the others could tell nothing true. */
export type Access = "existing" | "new";

/** The options of every command, wherever on the line they stood. */
export function globalOptions(command: Command): GlobalOptions {
  const { config, json } = command.optsWithGlobals<{ config?: string; json?: true }>();
  return { config, json: json === true };
}

/**
 * Opens the config and the store, prints what `work` returns, and closes the store, also after a
 * failure. Rejects with ConfigError, StoreError, CommandFailure, and what `work` throws.
 */
export async function withSession(
  command: Command,
  access: Access,
  work: (session: Session) => Result,
): Promise<void> {
  const options = globalOptions(command);
  printResult(await runSession(options.config, access, work), options.json);
}

/** The same without printing: resolves with what `work` returns. */
export async function runSession<T>(
  configPath: string | undefined,
  access: Access,
  work: (session: Session) => T | Promise<T>,
): Promise<T> {
  const { config } = loadConfig({ path: configPath, secrets: "unread" });
  const { path, durability } = config.database;
  if (access === "existing") requireDatabase(path);
  let store: Store | undefined;
  const session = {
    config,
    get store() {
      return (store ??= openStore({ path, durability, serving: false }));
    },
    actor: currentActor(),
    toPaste: (...words: readonly string[]) => commandToPaste(configPath, ...words),
  };
  try {
    return await work(session);
  } catch (error) {
    throw toStoreError(path, error);
  } finally {
    store?.close();
  }
}

/** For a command that makes no database. Throws CommandFailure where there is none or nothing in it, and StoreError where its log is left alone. */
export function requireDatabase(path: string): void {
  refuseOrphanedWal(path);
  if (!existsSync(path))
    throw new CommandFailure(
      missingFolderProblem(path) ??
        `there is no database at ${path}: \`tollgate serve\` or \`tollgate accounts create\` creates it`,
    );
  const empty = emptyFileProblem(path);
  if (empty !== undefined) throw new CommandFailure(empty);
}

/** Who runs this command, and when. */
export function currentActor(): Actor {
  return { name: actorName(), at: systemClock.epochMs() };
}

/** The number says it for certain; the name is easier to read. */
function actorName(): string {
  const uid = process.getuid?.();
  if (uid === undefined) return "unknown";
  const name = userName(uid);
  return name === undefined ? `uid ${uid}` : `${name} (uid ${uid})`;
}

/** By /etc/passwd alone, which other sources of users are not in: Bun 1.4.5's `userInfo` takes it from the environment. */
function userName(uid: number): string | undefined {
  try {
    const users = readFileSync("/etc/passwd", "utf8").split("\n");
    return users.map((user) => user.split(":")).find(([, , id]) => id === String(uid))?.[0];
  } catch {
    // In a container the user often has a number only.
    return undefined;
  }
}

/** The wish of whoever runs the program that it ends. */
export interface StopSignals {
  /** SIGTERM or SIGINT came, or another that was listened for. */
  readonly first: Promise<void>;
  /** A second one came: whoever sent it does not want to wait. */
  readonly second: Promise<void>;
}

/**
 * Listens from now on, for `more` signals too where they are named: one that comes while the program still starts is
 * not lost, and does not kill it.
 */
export function listenForStop(...more: readonly NodeJS.Signals[]): StopSignals {
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  let isAsked = false;
  const onSignal = (): void => {
    if (isAsked) second.resolve();
    isAsked = true;
    first.resolve();
  };
  for (const signal of ["SIGTERM", "SIGINT", ...more] as const) process.on(signal, onSignal);
  return { first: first.promise, second: second.promise };
}
