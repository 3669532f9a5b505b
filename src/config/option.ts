import { nearest } from "../lib/nearest.ts";
import { joinKey, type Inspection } from "./inspection.ts";
import { readSecret, type Secret } from "./secretUrl.ts";
import { parseDurationMs, parseSizeBytes } from "./values.ts";

/** A table of the config file: values by key. */
export type Table = Readonly<Record<string, unknown>>;

/** The facts of an entry besides its type. */
export interface Spec {
  /** What the key does. The example and the reference add the default and the range. */
  readonly doc: string;
  /** The value in the example, as TOML, if it is not the default. False: the example does not show the key. */
  readonly example?: string | false;
  /** A change needs a restart. With a function: only if the function's result for the section of `Config` changes. */
  readonly restart?: true | ((section: never) => unknown);
  /** The unit of systemd contains the value. */
  readonly inUnit?: true;
  /** Only `serve` needs the value. It is a secret, or a file that commands may be unable to read. */
  readonly serveOnly?: true;
  /** The example and the reference have the key in another table. */
  readonly isElsewhere?: true;
  /** The one kind of model or provider that has the key. */
  readonly only?: "chat" | "openai" | "anthropic";
}

/** One key of the config file. A secret has two: the second names a file that contains it. */
export interface Option<Value> {
  readonly keys: readonly [string, ...string[]];
  /** Completes "must be ..." and "is required: ...". */
  readonly form: string;
  readonly isRequired: boolean;
  /** The default as TOML. Undefined: the key has none. */
  readonly default: string | undefined;
  /** The range in words, such as "0s to 5m". */
  readonly range: string | undefined;
  /** The keys whose value is a file name. */
  readonly fileKeys: readonly string[];
  /** The entries of the table or of each table of the list. */
  readonly options: Options | undefined;
  readonly isList: boolean;
  readonly spec: Spec;
  /** Problems go to the inspection. A wrong value is replaced by the default or the minimum. */
  read(table: Table, at: string, inspection: Inspection): Value;
}

export type Options = Readonly<Record<string, Option<unknown>>>;

/** The values of a table: each has the name of its entry. */
export type Values<Given extends Options> = {
  readonly [Name in keyof Given]: Given[Name] extends Option<infer Value> ? Value : never;
};

/** Refuses unknown keys of a table and reads every entry. `at` is the table's own key, such as `providers[0]`. */
export function readTable<Given extends Options>(
  options: Given,
  table: Table,
  at: string,
  inspection: Inspection,
): Values<Given> {
  const known = Object.values(options).flatMap(({ keys }) => keys);
  const knownNames = new Set(known);
  for (const name of Object.keys(table)) {
    if (knownNames.has(name)) continue;
    const meant = nearest(name, known);
    const advice =
      meant === undefined ? `the keys here are ${known.join(", ")}` : `did you mean ${meant}?`;
    inspection.problem(joinKey(at, name), `unknown key; ${advice}`);
  }
  const values = Object.entries(options).map(
    ([name, option]) => [name, option.read(table, at, inspection)] as const,
  );
  return Object.fromEntries(values) as Values<Given>;
}

/** Reads the tables of a list. An item that is no table is a problem and is left out. */
export function readTables<Value>(
  items: readonly unknown[],
  at: string,
  inspection: Inspection,
  read: (table: Table, at: string) => Value,
): readonly Value[] {
  return items.flatMap((item, index) => {
    const key = `${at}[${index}]`;
    if (isTable(item)) return [read(item, key)];
    inspection.problem(key, "must be a table");
    return [];
  });
}

/**
 * Refuses the keys of a table that belong to another kind. `problem` makes the message from the kind that has the key.
 */
export function refuseOtherKinds(
  options: Options,
  { table, at, kind }: { readonly table: Table; readonly at: string; readonly kind: string },
  inspection: Inspection,
  problem: (only: string) => string,
): void {
  for (const { keys, spec } of Object.values(options)) {
    const { only } = spec;
    if (only === undefined || only === kind) continue;
    for (const key of keys)
      if (Object.hasOwn(table, key)) inspection.problem(`${at}.${key}`, problem(only));
  }
}

export function isTable(value: unknown): value is Table {
  return (
    typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date)
  );
}

const TEXT_LENGTH_MAX = 8192;
const LIST_LENGTH_MAX = 1000;

/** A form of values, such as a number in a range. */
export interface Form<Value> {
  /** Completes "must be ...". */
  readonly form: string;
  /** Returns undefined for a value without this form. It may report what exactly is wrong. */
  readonly accept: (value: unknown, place: string, inspection: Inspection) => Value | undefined;
}

const TEXT: Form<string> = {
  form: "a text in quotes",
  accept: (value) => (typeof value === "string" ? value : undefined),
};

/** An entry of any form. `absent`: the value if the key is not set or has a wrong value. */
export function entry<Value>(
  key: string,
  spec: Spec,
  kind: Form<Value> & {
    readonly absent: Value;
    readonly default?: string | undefined;
    readonly range?: string;
    readonly isRequired?: boolean;
    readonly options?: Options;
    readonly isList?: boolean;
  },
): Option<Value> {
  const { form, absent, isRequired = false, isList = false } = kind;
  return {
    keys: [key],
    form,
    isRequired,
    default: kind.default,
    range: kind.range,
    fileKeys: [],
    options: kind.options,
    isList,
    spec,
    read(table, at, inspection) {
      const place = joinKey(at, key);
      const value = table[key];
      if (value !== undefined) return readValue(value, kind, place, inspection) ?? absent;
      if (isRequired) inspection.problem(place, `is required: ${form}`);
      return absent;
    },
  };
}

/** Undefined for a value that does not have the form, which is a problem. */
function readValue<Value>(
  value: unknown,
  { form, accept }: Form<Value>,
  place: string,
  inspection: Inspection,
): Value | undefined {
  if (typeof value === "string" && value.length > TEXT_LENGTH_MAX) {
    inspection.problem(place, `must have at most ${TEXT_LENGTH_MAX} characters`);
    return undefined;
  }
  const accepted = accept(value, place, inspection);
  if (accepted === undefined) inspection.problem(place, `must be ${form}`);
  return accepted;
}

/** A text. `form` completes "must be ...", such as "an address in quotes". */
export function text<Default extends string | undefined = undefined>(
  key: string,
  spec: Spec & { readonly default?: Default; readonly form?: string; readonly required?: true },
): Option<string | Default> {
  const absent = spec.default as Default;
  return entry<string | Default>(key, spec, {
    ...TEXT,
    form: spec.form ?? TEXT.form,
    isRequired: spec.required === true,
    absent,
    default: absent === undefined ? undefined : JSON.stringify(absent),
  });
}

/** The name of a file; "" for none. */
export function file(key: string, spec: Spec): Option<string> {
  return { ...text(key, { ...spec, default: "" }), fileKeys: [key] };
}

/** A secret that stands under `key`, or in a file that the key with `_file` names. Undefined: neither is set. */
export function secret(
  key: string,
  spec: Spec & { readonly form?: string; readonly what?: string },
): Option<Secret | undefined> {
  const literal = text(key, { ...spec, default: "" });
  const path = file(`${key}_file`, { doc: "" });
  return {
    ...literal,
    keys: [key, ...path.keys],
    fileKeys: path.keys,
    read(table, at, inspection) {
      const [given, named] = [literal, path].map((one) => one.read(table, at, inspection));
      return readSecret(joinKey(at, key), given, named, inspection, spec.what);
    },
  };
}

export function flag(key: string, spec: Spec & { readonly default: boolean }): Option<boolean> {
  return entry(key, spec, {
    form: "true or false, without quotes",
    accept: (value) => (typeof value === "boolean" ? value : undefined),
    absent: spec.default,
    default: String(spec.default),
  });
}

/** One word of a list. */
export function choice<const Word extends string>(
  key: string,
  words: readonly Word[],
  spec: Spec & { readonly default: NoInfer<Word> },
): Option<Word> {
  const absent: Word = spec.default;
  return entry(key, spec, { ...oneOf(words), absent, default: JSON.stringify(absent) });
}

/** Some words of a list. */
export function choices<const Word extends string>(
  key: string,
  words: readonly Word[],
  spec: Spec & { readonly form: string },
): Option<readonly Word[]> {
  const list = listOf(oneOf(words), spec.form, words.length);
  return entry(key, spec, { ...list, absent: [], default: "[]" });
}

/** A whole number. `what` describes it in messages. */
export function wholeNumber<Default extends number | undefined = undefined>(
  key: string,
  spec: Spec & {
    readonly default?: Default;
    readonly min?: number;
    readonly max: number;
    readonly what?: string;
  },
): Option<number | Default> {
  const { min = 0, max, what = "a whole number" } = spec;
  const absent = spec.default as Default;
  return entry<number | Default>(key, spec, {
    form: `${what} from ${min} to ${max}`,
    // The parser makes a bigint of a whole number, so that 25.0 differs from 25.
    accept: (value) =>
      typeof value === "bigint" && value >= min && value <= max ? Number(value) : undefined,
    absent,
    default: absent === undefined ? undefined : String(absent),
    range: `${min} to ${max}`,
  });
}

/** The default and the limits of a quantity, as in the file, such as "30s". */
interface Quantity extends Spec {
  readonly default: string;
  readonly min?: string;
  readonly max: string;
}

/** Milliseconds. */
export function duration(key: string, spec: Quantity): Option<number> {
  const form = 'a duration in quotes, such as "30s"';
  const exactly = 'a duration in the form "500ms", "30s", "5m", "24h" or "90d"';
  return quantity(key, { min: "0s", ...spec }, form, exactly, parseDurationMs);
}

export function size(key: string, spec: Quantity): Option<number> {
  const form = 'a size in quotes, such as "20MB"';
  const exactly = 'a size in the form "512KB" or "20MB"';
  return quantity(key, { min: "0B", ...spec }, form, exactly, parseSizeBytes);
}

function quantity(
  key: string,
  spec: Required<Pick<Quantity, "min">> & Quantity,
  form: string,
  exactly: string,
  parse: (text: string) => number | undefined,
): Option<number> {
  const { min, max } = spec;
  const [absent = 0, least = 0, most = 0] = [spec.default, min, max].map(parse);
  return entry(key, spec, {
    form,
    accept(value, place, inspection) {
      if (typeof value !== "string") return undefined;
      const amount = parse(value);
      if (amount !== undefined && amount >= least && amount <= most) return amount;
      inspection.problem(place, `must be ${exactly}, from ${min} to ${max}`);
      return undefined;
    },
    absent,
    default: JSON.stringify(spec.default),
    range: `${min} to ${max}`,
  });
}

/** A list of names. Each is not empty, has no control characters and passes `check`, which returns a problem. */
export function names(
  key: string,
  spec: Spec & {
    readonly default?: readonly string[];
    readonly check?: (name: string) => string | undefined;
  },
): Option<readonly string[]> {
  const name: Form<string> = {
    ...TEXT,
    accept(value, place, inspection) {
      if (typeof value !== "string") return undefined;
      const isPlain = value !== "" && !/\p{Cc}/u.test(value);
      const problem = isPlain ? spec.check?.(value) : "must be a name without control characters";
      if (problem !== undefined) inspection.problem(place, problem);
      return value;
    },
  };
  const absent = spec.default ?? [];
  return entry(key, spec, {
    ...listOf(name, 'a list, such as ["one", "two"]', LIST_LENGTH_MAX),
    absent,
    default: `[${absent.map((one) => JSON.stringify(one)).join(", ")}]`,
  });
}

/** Headers for a server, as they stand in the file: `readHeaders` checks them. */
export function headers(key: string, spec: Spec): Option<Readonly<Record<string, string>>> {
  return entry<Readonly<Record<string, string>>>(key, spec, {
    form: 'a table, such as { "x-team" = "search" }',
    accept(value, place, inspection) {
      if (!isTable(value)) return undefined;
      const given = Object.entries(value).map(
        ([name, one]) =>
          [name, readValue(one, TEXT, joinKey(place, name), inspection) ?? ""] as const,
      );
      return Object.fromEntries(given);
    },
    absent: {},
    default: "{}",
  });
}

/** The same entries for a further table. The example and the reference show them once. */
export function documentedElsewhere<Given extends Options>(options: Given): Given {
  const hidden = Object.entries(options).map(([name, option]) => [
    name,
    { ...option, spec: { ...option.spec, example: false as const, isElsewhere: true as const } },
  ]);
  return Object.fromEntries(hidden) as Given;
}

/** A table of the file. Its values are read by `readTable`. */
export function section(key: string, options: Options): Option<Table> {
  return entry<Table>(
    key,
    { doc: "" },
    {
      form: `a table: write [${key}]`,
      accept: (value) => (isTable(value) ? value : undefined),
      absent: {},
      options,
    },
  );
}

/** A list of tables. They are read by `readTables`. */
export function tables(
  key: string,
  options: Options,
  spec: Spec & { readonly form: string; readonly max: number; readonly required?: true },
): Option<readonly unknown[]> {
  const isRequired = spec.required === true;
  const any: Form<unknown> = { form: "", accept: (value) => value };
  const list = listOf(any, spec.form, spec.max, isRequired ? 1 : 0);
  return entry(key, spec, { ...list, isRequired, absent: [], options, isList: true });
}

/** A list of at most `max` items. Wrong items are left out. */
function listOf<Item>(item: Form<Item>, form: string, max: number, min = 0): Form<readonly Item[]> {
  return {
    form,
    accept(value, place, inspection) {
      if (!Array.isArray(value) || value.length < min) return undefined;
      if (value.length > max) inspection.problem(place, `must have at most ${max} items`);
      return value
        .map((one, index) => readValue(one, item, `${place}[${index}]`, inspection))
        .filter((one) => one !== undefined);
    },
  };
}

function oneOf<Word extends string>(words: readonly Word[]): Form<Word> {
  return {
    form: `one of: ${words.map((word) => `"${word}"`).join(", ")}`,
    accept: (value) => words.find((word) => word === value),
  };
}
