import { Argument, InvalidArgumentError, Option, type Command } from "commander";
import {
  readInput,
  runOperation,
  type Field,
  type Group,
  type Operation,
  type Texts,
} from "../../administration/operation.ts";
import { InvalidValue } from "../../administration/values.ts";
import { systemClock } from "../../lib/clock.ts";
import { CommandFailure, printResult, printText } from "./print.ts";
import { asUsage, globalOptions, runSession } from "./session.ts";

/** Registers the command of a group, with a subcommand for each of its operations. */
export function addGroup(program: Command, group: Group): void {
  const parent = program.command(group.name).description(group.doc);
  for (const one of group.operations) {
    const [, name] = one.name.split(" ");
    const command = name === undefined ? parent : parent.command(name).description(one.doc);
    if (one.about !== undefined) command.summary(one.doc).description(one.about);
    const fields = Object.entries(one.input).flatMap(([key, field]) => {
      return field.cli === undefined ? [] : [{ key, textOf: addField(command, field.cli, field) }];
    });
    command.action(async () => {
      if (command !== parent) refuseOptionsOf(parent);
      const texts = Object.fromEntries(fields.map(({ key, textOf }) => [key, textOf()]));
      await run(command, one, texts);
    });
  }
}

/** Adds the argument or the option. Returns the function that reads its text after the command line was parsed. */
function addField(command: Command, cli: string, field: Field): () => string | undefined {
  const check = (text: string): string => {
    checkText(field, text);
    return text;
  };
  if (!cli.startsWith("-")) {
    const at = command.registeredArguments.length;
    command.addArgument(new Argument(cli, field.doc).argParser(check));
    return () => textOf(command.processedArgs[at]);
  }
  const option = new Option(cli, field.doc);
  if (!option.isBoolean()) option.argParser(check);
  if (field.choices) option.choices(field.choices);
  // Commander quotes a default without a description. The help shows a number without quotes.
  if (field.default !== undefined)
    option.default(field.default, field.choices ? undefined : field.default);
  if (field.isRequired) option.makeOptionMandatory();
  command.addOption(option);
  return () => textOf(command.getOptionValue(option.attributeName()));
}

/** A flag is true. */
function textOf(value: unknown): string | undefined {
  if (value === true) return "true";
  return typeof value === "string" ? value : undefined;
}

/** Commander adds the name of the argument and the value to the message. */
function checkText(field: Field, text: string): void {
  try {
    field.read(text, systemClock.epochMs());
  } catch (error) {
    if (!(error instanceof InvalidValue)) throw error;
    if (field.isSecret) throw new CommandFailure(error.message, { cause: error, status: 2 });
    throw new InvalidArgumentError(error.message);
  }
}

/** Commander also accepts the options of a command after the name of its subcommand. */
function refuseOptionsOf(parent: Command): void {
  const given = parent.options.find(
    (option) => parent.getOptionValueSource(option.attributeName()) === "cli",
  );
  if (given === undefined) return;
  throw new CommandFailure(`${given.long} applies to the list of ${parent.name()} only: omit it`, {
    status: 2,
  });
}

async function run(command: Command, one: Operation, texts: Texts): Promise<void> {
  const { json } = globalOptions(command);
  const isCsv = texts["csv"] !== undefined;
  if (isCsv && json)
    throw new CommandFailure("--csv and --json cannot be combined: use one of them", { status: 2 });
  const values = asUsage(() => {
    const read = readInput(one, texts, systemClock.epochMs());
    one.check?.(read);
    return read;
  });
  const ended = await runSession(
    command,
    one.access ?? "existing",
    async (session) => {
      const result = await runOperation(one, session, values);
      return { result, terminal: { toPaste: session.toPaste, nowMs: session.actor.at } };
    },
    one.needsNotifySecrets?.(values) ? "notify" : "unread",
  );
  const { result, terminal } = ended;
  if (isCsv) printText(one.csv?.(result, values) ?? "");
  else
    printResult(
      { document: result.document, text: () => one.text?.(result, terminal, values) ?? "" },
      json,
    );
}
