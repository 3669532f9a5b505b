import { isJsonObject } from "../../lib/json.ts";
import { ANSWER_ROOM, CostlyJsonError, parseUntrusted } from "../../lib/untrustedJson.ts";
import { AnswerError, MisfireError } from "../provider.ts";

/**
 * The object that an answer, or an event of one, must be; `parse` reads its text. Throws AnswerError for anything
 * else, and for an `error` in an answer's place, whichever provider's; MisfireError for one that would take too long to
 * read: a client can bring that about.
 */
export function parseAnswer(
  text: string,
  parse: (text: string) => unknown = (answer) => parseUntrusted(answer, ANSWER_ROOM),
): Record<string, unknown> {
  let value: unknown;
  try {
    value = parse(text);
  } catch (error) {
    if (error instanceof CostlyJsonError) throw new MisfireError(`the answer ${error.message}`);
    // The parser's error quotes the answer, which must not reach a log: so it is no cause here.
    throw new AnswerError("the answer is not JSON");
  }
  if (!isJsonObject(value)) throw new AnswerError("the answer is not a JSON object");
  if (value["error"] !== undefined && value["error"] !== null) {
    throw new AnswerError("the answer is an error");
  }
  return value;
}
