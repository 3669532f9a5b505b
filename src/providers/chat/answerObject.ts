import { isJsonObject } from "../../lib/json.ts";
import { AnswerError, parseAnswerJson } from "../provider.ts";
import { reportedFailureIn } from "../reportedFailure.ts";

/**
 * The object that an answer, or an event of one, must be, read as parseAnswerJson does. Throws AnswerError for anything
 * else too, and for an `error` in an answer's place, whichever provider's.
 */
export function parseAnswer(
  text: string,
  parse?: (text: string) => unknown,
): Record<string, unknown> {
  const value = parseAnswerJson(text, parse);
  const failure = reportedFailureIn(value);
  if (failure) throw failure;
  if (!isJsonObject(value)) throw new AnswerError("the answer is not a JSON object");
  return value;
}

/** A call or an image as it stands in a message. Only the pieces of a stream are told apart by an index. */
export function withoutIndex<Piece extends { readonly index: number }>(
  piece: Piece,
): Omit<Piece, "index"> {
  const { index: _, ...others } = piece;
  return others;
}
