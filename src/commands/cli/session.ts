import type { Command } from "commander";
import { existsSync, readFileSync } from "node:fs";
import { databaseName } from "../../config/database.ts";
import { actorInEnvironment, forgetPostgresEnvironment, loadConfig } from "../../config/load.ts";
import type { Config, PostgresDatabase, SqliteDatabase } from "../../config/schema.ts";
import { systemClock } from "../../lib/clock.ts";
import {
  emptyFileProblem,
  toStoreError,
  missingFolderProblem,
  needsUpgrade,
  openServerStore,
  openStandby,
  openStore,
  refuseOrphanedWal,
  upgradeStore,
  type ServerAddress,
  type UpgradeStep,
} from "../../store/open.ts";
import type { Actor, Store } from "../../store/store.ts";
import type { Operator } from "../../administration/operator.ts";
import { actorName, InvalidValue } from "../../administration/values.ts";
import { CommandFailure, printNotice, printWarning } from "./print.ts";
import { bytesText, commandToPaste } from "../../lib/terminal.ts";

/** The options that every command takes. */
export interface GlobalOptions {
  readonly config: string | undefined;
  readonly json: boolean;
}

/** The context of a command that uses the store. The store is opened on first use. */
export interface Session extends Operator {
  /** A shell command that runs tollgate with these arguments and the same config. */
  readonly toPaste: (...words: readonly string[]) => string;
}

/**
 * `new`: creates the database if it does not exist. Only commands that create an account use it. `report`: a hot standby
 * answers, if the config names one. `console`: the standby answers the reads, and the database gets the changes.
 */
export type Access = "existing" | "new" | "report" | "console";

/** The global options, before or after the command's name. */
export function globalOptions(command: Command): GlobalOptions {
  const { config, json } = command.optsWithGlobals<{ config?: string; json?: true }>();
  return { config, json: json === true };
}

/**
 * Opens the config and the store, resolves with what `work` returns, and closes the store, also after a failure. With the
 * secrets "notify" the config has those of [notify]. Rejects with ConfigError, StoreError, CommandFailure, and what `work` throws.
 */
export async function runSession<T>(
  command: Command,
  access: Access,
  work: (session: Session) => T | Promise<T>,
  secrets: "unread" | "notify" = "unread",
): Promise<T> {
  const { config: configPath } = globalOptions(command);
  const name = actorOf(command);
  const { config } = loadConfig({ path: configPath, secrets });
  const database = await openForCommand(config.database, access, wordsOf(command));
  const session = {
    config,
    get store() {
      return database.store();
    },
    get actor() {
      return { name, command: wordsOf(command), at: systemClock.epochMs() };
    },
    onWait: printWaiting,
    toPaste: (...words: readonly string[]) => commandToPaste(configPath, ...words),
  };
  try {
    return await work(session);
  } catch (error) {
    throw toStoreError(databaseName(config.database), error);
  } finally {
    await database.close();
  }
}

/** The command without the program's name, such as `balance credit`. */
function wordsOf(command: Command): string {
  const { parent } = command;
  return parent?.parent ? `${wordsOf(parent)} ${command.name()}` : command.name();
}

interface CommandDatabase {
  /** Opens a SQLite file at the first call. */
  store(): Store;
  close(): Promise<void>;
}

async function openForCommand(
  database: Config["database"],
  access: Access,
  application: string,
): Promise<CommandDatabase> {
  if (database.engine === "postgres") return await openServer(database, access, application);
  const { path, durability } = database;
  if (access !== "new") requireDatabase(path);
  if (needsUpgrade(path)) await upgradeForCommand(database);
  let opened: Store | undefined;
  const open = (): Store => openStore({ path, durability, serving: false });
  return {
    store: () => (opened ??= open()),
    async close() {
      await opened?.close();
    },
  };
}

async function openServer(
  database: PostgresDatabase,
  access: Access,
  application: string,
): Promise<CommandDatabase> {
  forgetPostgresEnvironment();
  const address = { ...database, application };
  const standby = database.reports && { ...database.reports, application };
  const store =
    access === "report" && standby !== undefined
      ? await openReport(standby, address)
      : await openServerStore(
          address,
          {
            onUpgrade: ({ applied, known }) =>
              printNotice(
                `upgrading the database on the server from schema ${applied} to ${known}; tollgate makes no backup of it`,
              ),
            onBlocked: ({ blockers }) =>
              printNotice(
                `the upgrade waits for a lock of ${blockers}: it is tried again until that has ended`,
              ),
          },
          access === "console" ? standby : undefined,
        );
  return {
    store: () => store,
    async close() {
      await store.close();
    },
  };
}

/** The database does not stand in for a standby: the operator wants reports to keep away from it. */
async function openReport(standby: ServerAddress, primary: ServerAddress): Promise<Store> {
  const { store, found } = await openStandby(standby, primary);
  if (found.isSameDatabase === undefined)
    printWarning(
      `${primary.shownUrl} gives no answer: whether the standby has the same database is not known`,
    );
  printNotice(`reading the standby ${standby.shownUrl}: ${behindText(found.lagMs)}`);
  return store;
}

/** How far a standby is behind. */
export function behindText(lagMs: number | undefined): string {
  if (lagMs === undefined) return "how far it is behind is not known";
  return lagMs === 0 ? "it is not behind" : `it is up to ${secondsText(lagMs)} behind`;
}

/** A signal ends the backup. A signal during the migration ends the process, and SQLite undoes the migration. */
async function upgradeForCommand({ path, durability }: SqliteDatabase): Promise<void> {
  const signals = listenForStop("SIGHUP");
  try {
    await upgradeStore({
      path,
      durability,
      serving: false,
      wantsBackup: true,
      stopped: signals.first,
      onStep(step) {
        if (step.step === "backedUp" || step.step === "noBackup") signals.end();
        printUpgrade(step);
      },
    });
  } finally {
    signals.end();
  }
}

function printUpgrade(step: UpgradeStep): void {
  switch (step.step) {
    case "backup":
      return printNotice(
        `the database is of an earlier version: making a backup of it (${bytesText(step.bytes)}) before the upgrade`,
      );
    case "copying":
      return printNotice(`copying: ${bytesText(step.done)} of ${bytesText(step.total)}`);
    case "checking":
      return printNotice(`checking the backup: ${step.done} of ${step.total} requests`);
    case "backedUp":
      return printNotice(`made the backup ${step.file} in ${secondsText(step.tookMs)}`);
    case "noBackup":
      return printNoBackup(step);
    case "migrating":
      return printNotice(`migrating the database: ${step.copied} of ${step.total} requests`);
    case "upgraded":
      return printNotice(
        `upgraded the database from schema ${step.applied} to ${step.known} in ${secondsText(step.tookMs)}`,
      );
  }
}

/** A command always wants one. */
function printNoBackup(step: UpgradeStep & { step: "noBackup" }): void {
  if (step.reason === "unwanted") return;
  const { neededBytes, freeBytes } = step.room;
  printWarning(
    `no backup is made before the upgrade: it needs up to ${bytesText(neededBytes)} on the disk of the database, and ${bytesText(freeBytes)} are free`,
  );
}

function secondsText(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`;
}

/** Throws CommandFailure for a missing or empty database, and StoreError for an orphaned WAL. */
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

/** Tells that a change waits for money of open requests. */
function printWaiting(waitMs: number): void {
  printNotice(
    `waiting up to ${waitMs / 1000} s for money that the gateway has reserved for open requests`,
  );
}

/** Who runs this command and for whom, its words, and the time. Throws CommandFailure for a wrong name. */
export function currentActor(command: Command): Actor {
  return { name: actorOf(command), command: wordsOf(command), at: systemClock.epochMs() };
}

/** Throws CommandFailure with the status of wrong usage instead of InvalidValue. `named`: what its message begins with. */
export function asUsage<Value>(read: () => Value, named = ""): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof InvalidValue)) throw error;
    throw new CommandFailure(`${named}${error.message}`, { cause: error, status: 2 });
  }
}

/** The system's user comes first: nobody can set that one. */
function actorOf(command: Command): string {
  const { actor: given } = command.optsWithGlobals<{ actor?: string }>();
  const name = given ?? actorInEnvironment();
  if (name === undefined) return systemUser();
  const from = given === undefined ? "TOLLGATE_ACTOR" : "--actor";
  return `${systemUser()} for ${asUsage(() => actorName(name), `${from}: `)}`;
}

function systemUser(): string {
  const uid = process.getuid?.();
  if (uid === undefined) return "unknown";
  const name = userName(uid);
  return name === undefined ? `uid ${uid}` : `${name} (uid ${uid})`;
}

/** Reads /etc/passwd, because `os.userInfo` of Bun 1.4.5 reads the environment, which the user can change. */
function userName(uid: number): string | undefined {
  try {
    const users = readFileSync("/etc/passwd", "utf8").split("\n");
    return users.map((user) => user.split(":")).find(([, , id]) => id === String(uid))?.[0];
  } catch {
    // A container may have no /etc/passwd.
    return undefined;
  }
}

/** Signals that ask the program to stop. */
export interface StopSignals {
  readonly first: Promise<void>;
  /** Asks to stop without waiting for open requests. */
  readonly second: Promise<void>;
  /** Gives the signals their usual effect back. */
  end(): void;
}

/** Handles SIGTERM, SIGINT and `more` from now on, so that a signal during the start is not lost. */
export function listenForStop(...more: readonly NodeJS.Signals[]): StopSignals {
  const first = Promise.withResolvers<void>();
  const second = Promise.withResolvers<void>();
  let isAsked = false;
  const onSignal = (): void => {
    if (isAsked) second.resolve();
    isAsked = true;
    first.resolve();
  };
  const handled = ["SIGTERM", "SIGINT", ...more] as const;
  for (const signal of handled) process.on(signal, onSignal);
  return {
    first: first.promise,
    second: second.promise,
    end() {
      for (const signal of handled) process.off(signal, onSignal);
    },
  };
}
