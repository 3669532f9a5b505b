import { isJsonObject } from "../../lib/json.ts";
import { AnswerError, parseAnswerJson } from "../provider.ts";

/**
 * The object that an answer, or an event of one, must be, read as parseAnswerJson does. Throws AnswerError for anything
 * else too, and for an `error` in an answer's place, whichever provider's.
 */
export function parseAnswer(
  text: string,
  parse?: (text: string) => unknown,
): Record<string, unknown> {
  const value = parseAnswerJson(text, parse);
  if (!isJsonObject(value)) throw new AnswerError("the answer is not a JSON object");
  if (value["error"] !== undefined && value["error"] !== null) {
    throw new AnswerError("the answer is an error");
  }
  return value;
}
