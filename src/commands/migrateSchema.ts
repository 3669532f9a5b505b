import type { Command } from "commander";
import { databaseName } from "../config/database.ts";
import { forgetPostgresEnvironment, loadConfig } from "../config/load.ts";
import type { Config } from "../config/schema.ts";
import type { SchemaUpgradeDocument } from "../contract/operator/schemaUpgrade.ts";
import { planFileUpgrade, planServerUpgrade, type UpgradePlan } from "../store/open.ts";
import { CommandAnswer, printResult, type Result } from "./cli/print.ts";
import { globalOptions, runSession } from "./cli/session.ts";
import { table, type Column, visible } from "../lib/terminal.ts";

/** Registers `tollgate migrate-schema`. */
export function addMigrateSchema(program: Command): void {
  program
    .command("migrate-schema")
    .summary("bring the database to the schema of this version, and end")
    .description(
      "Makes the tables of an empty database, or applies the migrations that are missing, and ends: a job can run it before a rollout. A SQLite file gets a verified backup first, and no gateway of another version may run on it.",
    )
    .option(
      "--plan",
      "change nothing: print what would be applied; exit status 3 if it is anything",
    )
    .action(async (options: { plan?: true }, command: Command) => {
      const { config: path, json } = globalOptions(command);
      const { database } = loadConfig({ path, secrets: "unread" }).config;
      const plan = await planOf(database);
      const isPlan = options.plan === true;
      // A SQLite file is opened when the store is asked for.
      if (!isPlan) await runSession(command, "new", ({ store }) => void store.accounts);
      printResult(resultOf(databaseName(database), plan, isPlan), json);
      if (isPlan && plan.releases.length > 0) throw new CommandAnswer();
    });
}

async function planOf(database: Config["database"]): Promise<UpgradePlan> {
  if (database.engine === "sqlite") return planFileUpgrade(database.path);
  forgetPostgresEnvironment();
  return await planServerUpgrade(database);
}

function resultOf(database: string, plan: UpgradePlan, isPlan: boolean): Result {
  const { known, releases } = plan;
  const applied = isPlan ? plan.applied : Math.max(plan.applied, known);
  const document: SchemaUpgradeDocument = {
    database,
    plan: isPlan,
    applied,
    known,
    releases: releases.map(({ migrations, goesOn }) => ({
      migrations: [...migrations],
      version_before_goes_on: goesOn ?? null,
    })),
  };
  return {
    document,
    text: () =>
      releases.length === 0
        ? visible(`${database} has ${schemaText(applied, known)}: nothing to do`)
        : `${visible(headOf(database, plan, isPlan))}\n\n${releaseTable(plan)}`,
  };
}

function schemaText(applied: number, known: number): string {
  const text = `schema ${applied} of ${known}`;
  return applied > known ? `${text}, which this version can work with` : text;
}

function headOf(database: string, { applied, known }: UpgradePlan, isPlan: boolean): string {
  if (isPlan) return `${database} has ${schemaText(applied, known)}: this would be applied`;
  return `${database} had ${schemaText(applied, known)}: this was applied`;
}

function releaseTable({ releases }: UpgradePlan): string {
  const columns: readonly Column[] = [{ head: "migrations" }, { head: "the version before" }];
  return table(
    columns,
    releases.map(({ migrations, goesOn }) => [migrations.join(", "), besideText(goesOn)]),
  );
}

function besideText(goesOn: boolean | undefined): string {
  if (goesOn === undefined) return "there is none";
  return goesOn ? "can go on beside it" : "must be stopped before";
}
