import { isJsonObject, type JsonFields } from "../../lib/json.ts";
import { AnswerError, parseAnswerJson } from "../provider.ts";

/**
 * The object that an answer, or an event of one, must be, read as parseAnswerJson does. Throws AnswerError for anything
 * else too, and for an `error` in an answer's place, whichever provider's; `failureOf` makes that of the object.
 */
export function parseAnswer(
  text: string,
  parse?: (text: string) => unknown,
  failureOf: (answer: JsonFields) => AnswerError = () => new AnswerError("the answer is an error"),
): Record<string, unknown> {
  const value = parseAnswerJson(text, parse);
  if (!isJsonObject(value)) throw new AnswerError("the answer is not a JSON object");
  if (value["error"] !== undefined && value["error"] !== null) {
    throw failureOf(value);
  }
  return value;
}

/** A call or an image as it stands in a message. Only the pieces of a stream are told apart by an index. */
export function withoutIndex<Piece extends { readonly index: number }>(
  piece: Piece,
): Omit<Piece, "index"> {
  const { index: _, ...others } = piece;
  return others;
}
