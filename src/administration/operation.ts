import type { TSchema } from "@sinclair/typebox";
import type { OperatorApi } from "../contract/operator/api.ts";
import type { Operator } from "./operator.ts";
import { InvalidValue, readField } from "./values.ts";

type Reader<Value> = (text: string, nowMs: number) => Value;

/**
 * A value of an operation. It is given as a text: an argument or option of the command, a part of the path, a member of the
 * body or the query.
 */
export interface Field<Value = unknown> {
  /** As Commander takes it: `<roubles>` or `--ref <text>`. Absent: the command does not have it. */
  readonly cli?: string;
  readonly doc?: string | undefined;
  /** Throws InvalidValue. A duration counts from or to `nowMs`. */
  readonly read: Reader<Value>;
  readonly isRequired?: true;
  /** A text that is read like any other. */
  readonly default?: string;
  readonly choices?: readonly string[];
  /** No message repeats a wrong value, because it may be a secret that was given by mistake. */
  readonly isSecret?: true;
  /** The console does not have it. */
  readonly isCliOnly?: true;
}

/** A value that must be given. As an argument of the command: `<roubles>`; as an option: `--amount <roubles>`. */
export interface RequiredField<Value> extends Field<Value> {
  readonly isRequired: true;
}

/** A value that may be absent, or has a default. */
export interface OptionalField<Value> extends Field<Value> {
  readonly isRequired?: never;
}

export type Fields = Readonly<Record<string, Field>>;

/** The values of fields. */
export type Values<Input extends Fields> = {
  readonly [Name in keyof Input]: Input[Name] extends Field<infer Value> ? Value : never;
};

/** The text of each field that is given. */
export type Texts = Readonly<Record<string, string | undefined>>;

/** A value that must be given. */
export function required<Value>(
  cli: string,
  doc: string | undefined,
  read: Reader<Value>,
): RequiredField<Value> {
  return { cli, doc, read, isRequired: true };
}

/** The id of an object that has a secret. A secret that is given instead of the id is not repeated. */
export function idOf(doc: string, read: Reader<string>): RequiredField<string> {
  return { ...required("<id>", doc, read), isSecret: true };
}

/** A value that may be absent. */
export function optional<Value>(
  cli: string,
  doc: string,
  read: Reader<Value>,
): OptionalField<Value | undefined> {
  return { cli, doc, read };
}

/** A value with a default, which the help shows. */
export function withDefault<Value>(
  text: string,
  cli: string,
  doc: string,
  read: Reader<Value>,
): OptionalField<Value> {
  return { cli, doc, read, default: text };
}

/** A value of the console alone. */
export function query<Value>(read: Reader<Value>): OptionalField<Value | undefined> {
  return { read };
}

/** A value of the console alone, with a default. */
export function queryWithDefault<Value>(text: string, read: Reader<Value>): OptionalField<Value> {
  return { read, default: text };
}

/** Reads one of a few texts. Commander and the schema of the route have checked it. */
export function chosen<const Choice extends string>(choices: readonly Choice[]): Reader<Choice> {
  return (text) => {
    const found = choices.find((one) => one === text);
    if (found === undefined) throw new InvalidValue(`Allowed choices are ${choices.join(", ")}.`);
    return found;
  };
}

/** Reads any text. */
export const anyText = (text: string): string => text;

/** Prints the rows as CSV. */
export const csvFlag: OptionalField<true | undefined> = {
  cli: "--csv",
  doc: "print CSV for a spreadsheet",
  read: () => true,
  isCliOnly: true,
};

/** What the text of a command needs besides the result. */
export interface Terminal {
  /** A shell command that runs tollgate with these arguments and the same config. */
  readonly toPaste: (...words: readonly string[]) => string;
  readonly nowMs: number;
}

/** What an operation changes. The scope of a token follows from it. */
export type Effect = "accounts" | "keys" | "balance" | "vouchers";

/**
 * Something that an operator does: a change or a report. The command with its help and its errors, the route of the console
 * with its description, the completion of shells and the name in the admin log come from it.
 */
export interface Operation<
  Input extends Fields = Fields,
  Result extends { readonly document: unknown } = { readonly document: unknown },
> {
  /** The words of the command, such as `balance credit`. The admin log has this name. */
  readonly name: string;
  /** One line for the help and for the description of the route. */
  readonly doc: string;
  /** The long description of the command. */
  readonly about?: string;
  /** Absent: there is only a command. */
  readonly route?: keyof OperatorApi;
  readonly input: Input;
  /** A call without any of the optional values is refused. */
  readonly needsOne?: true;
  /** The schema of the document. */
  readonly output?: TSchema;
  /** A report has none. A change is a POST. */
  readonly effects: readonly Effect[];
  /** How the command opens the database; unless given, the database must exist. */
  readonly access?: "new" | "report";
  /** Whether the config needs the secrets of [notify]. */
  needsNotifySecrets?(values: Values<Input>): boolean;
  /** Checks values that depend on each other, before anything is opened. Throws InvalidValue. */
  check?(values: Values<Input>): void;
  /** Throws InvalidValue, and StoreError if the store refuses it. */
  run(operator: Operator, values: Values<Input>): Promise<Result>;
  /** Lines for people. Text from outside is escaped by `visible`. */
  text?(result: Result, terminal: Terminal, values: Values<Input>): string;
  csv?(result: Result, values: Values<Input>): string;
}

/** The fields that the page gives to a route. Those that it may omit are not required. */
type FieldsOf<Route extends keyof OperatorApi> = {
  readonly [
    Name in keyof OperatorApi[Route]["input"]
  ]-?: undefined extends OperatorApi[Route]["input"][Name] ? OptionalField<unknown> : Field;
};

/** Declares an operation that the page can call too. Its input and its answer are those of the route in `OperatorApi`. */
export function operation<
  Route extends keyof OperatorApi,
  Input extends Fields & FieldsOf<Route>,
  Result extends { readonly document: OperatorApi[Route]["answer"] },
>(declared: Operation<Input, Result> & { readonly route: Route }): Operation {
  return declared;
}

/** Declares an operation that only has a command. */
export function command<Input extends Fields, Result extends { readonly document: unknown }>(
  declared: Operation<Input, Result> & { readonly route?: never },
): Operation {
  return declared;
}

/** A command and its subcommands. An operation with the name of the group is the command itself. */
export interface Group {
  readonly name: string;
  readonly doc: string;
  readonly operations: readonly Operation[];
}

/** Reads the texts, in the order of the fields. Throws InvalidValue with the name of the field. */
export function readInput<Input extends Fields>(
  { input, needsOne }: Pick<Operation<Input>, "input" | "needsOne">,
  texts: Texts,
  nowMs: number,
): Values<Input> {
  const values = Object.fromEntries(
    Object.entries(input).map(([name, field]) => {
      const text = texts[name] ?? field.default;
      const read = (given: string) => field.read(given, nowMs);
      return [name, text === undefined ? undefined : readField(name, text, read)];
    }),
  ) as Values<Input>;
  if (needsOne) requireOne(input, values);
  return values;
}

function requireOne(input: Fields, values: Readonly<Record<string, unknown>>): void {
  const names = Object.keys(input).filter((name) => !input[name]?.isRequired);
  if (names.some((name) => values[name] !== undefined)) return;
  const flags = names.map((name) => `--${name}`).join(", ");
  throw new InvalidValue(`nothing to change: give at least one of ${flags}`);
}

/**
 * Runs an operation for an operator. No other code does: this is the place for checks of who may do what. The admin log gets
 * the name of the operation.
 */
export async function runOperation<
  Input extends Fields,
  Result extends { readonly document: unknown },
>(one: Operation<Input, Result>, operator: Operator, values: Values<Input>): Promise<Result> {
  return await one.run(
    {
      config: operator.config,
      get store() {
        return operator.store;
      },
      get actor() {
        return { ...operator.actor, command: one.name };
      },
      ...(operator.onWait && { onWait: operator.onWait }),
    },
    values,
  );
}
