import { InvalidArgumentError } from "commander";
import * as values from "../../administration/values.ts";
import { CommandFailure } from "./print.ts";

/**
 * Parsers of arguments. Each returns the value or throws InvalidArgumentError with the expected form. Commander adds
 * the name of the argument. Amounts are nano-roubles, times are milliseconds since 1970.
 */

export const accountName = argument(values.accountName);
export const amount = argument(values.amount);
export const overdraft = argument(values.overdraft);
export const lowBalance = argument(values.lowBalance);
export const reference = argument(values.reference);
export const note = argument(values.note);
export const graceDuration = argument(values.graceDuration);
export const modelPatterns = argument(values.modelPatterns);
/** The maximum number of rows of a list. */
export const listLimit = argument(values.listLimit);

/** Returns a parser for Commander. */
export function argument<Value>(read: (text: string) => Value): (text: string) => Value {
  return (text) => {
    try {
      return read(text);
    } catch (error) {
      if (!(error instanceof values.InvalidValue)) throw error;
      throw new InvalidArgumentError(error.message);
    }
  };
}

/** The value of `none`. Null cannot be used, because Commander replaces it by an empty string. */
export const none = Symbol("none");

/** Returns a parser that also accepts `none`. */
export function orNone<Value>(
  read: (text: string) => Value,
): (text: string) => Value | typeof none {
  return (text) => (text === "none" ? none : read(text));
}

/** The help text of an argument that {@link keyId} parses. */
export const KEY_ID_DESCRIPTION = "key id such as key_01jd...; `tollgate keys list` shows them";

/** The id of a key. Commander would repeat a wrong value, and a key that is given instead of its id is secret. */
export function keyId(text: string): string {
  return asUsage(() => values.keyId(text));
}

/** Throws CommandFailure with the status of wrong usage instead of InvalidValue. `named`: what its message begins with. */
export function asUsage<Value>(read: () => Value, named = ""): Value {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof values.InvalidValue)) throw error;
    throw new CommandFailure(`${named}${error.message}`, { cause: error, status: 2 });
  }
}
