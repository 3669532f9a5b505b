import { readEmbeddingsUsage, type Usage } from "../../contract/usage.ts";
import { isJsonObject, memberText } from "../../lib/json.ts";
import { spliceBytes } from "../../lib/splice.ts";
import { ANSWER_COST_FACTOR, parseUntrusted } from "../../lib/untrustedJson.ts";
import { AnswerError, decodeAnswer, type EmbeddingsInterface } from "../provider.ts";
import { parseAnswer } from "../reportedFailure.ts";

/** 2,048 vectors of 4,096 numbers with 20 characters each are 168 MB. */
const ANSWER_BYTES_MAX = 192 * 1024 * 1024;

/**
 * The embeddings interface of OpenAI and compatible providers. The client's own text is sent with another `model`, and
 * the provider's bytes are the answer: https://platform.openai.com/docs/api-reference/embeddings/create
 */
export const openaiEmbeddings: EmbeddingsInterface = {
  refuseUnsupported() {},
  encode: ({ object, model }) => ({
    path: "/embeddings",
    body: spliceBytes(object, { set: { model: JSON.stringify(model) } }),
    answerBytesMax: ANSWER_BYTES_MAX,
  }),
  read(received) {
    const answer = Buffer.from(received.buffer, received.byteOffset, received.byteLength);
    return { usage: usageOf(answer), vectors: undefined };
  },
  usage: { name: "usage", read: readEmbeddingsUsage },
};

/** The part at the beginning and at the end of an answer that is searched. */
const END_BYTES = 65_536;

/** A longer answer is not parsed: that takes too long, and it is no report of a failure. */
const PARSED_BYTES_MAX = 1024 * 1024;

/**
 * The usage of an answer. The vectors are not parsed if the ends of the answer show that it has some, and its usage.
 * Throws AnswerError if there are no vectors, and ReportedFailure for an `error`.
 */
function usageOf(answer: Buffer): Usage | undefined {
  const ends = endsOf(answer);
  const isLong = answer.length > PARSED_BYTES_MAX;
  if (holdsVectors(ends) && (isLong || !reportsFailure(ends))) {
    const usage = usageIn(ends);
    if (usage !== undefined || isLong) return usage;
  }
  const value = isLong ? {} : parseAnswer(decodeAnswer(answer));
  if (!Array.isArray(value["data"])) throw new AnswerError("the answer has no vectors");
  return readEmbeddingsUsage(value["usage"]);
}

/**
 * The beginning and the end of an answer; of a short one both are all of it. Each byte is one character, which is right
 * for all names and numbers.
 */
interface Ends {
  readonly head: string;
  readonly tail: string;
}

function endsOf(answer: Buffer): Ends {
  const head = answer.toString("latin1", 0, END_BYTES);
  const isShort = answer.length <= END_BYTES;
  return { head, tail: isShort ? head : answer.toString("latin1", answer.length - END_BYTES) };
}

const VECTORS = /"data"[\t\n\r ]*:[\t\n\r ]*\[/;
/** An `error` other than null. */
const FAILURE = /"error"[\t\n\r ]*:[\t\n\r ]*[^n\t\n\r ]/;

/** Whether the text is an object with vectors, as its ends show. */
function holdsVectors({ head, tail }: Ends): boolean {
  const isObject = /^[\t\n\r ]*\{/.test(head) && /\}[\t\n\r ]*$/.test(tail);
  return isObject && (VECTORS.test(head) || VECTORS.test(tail));
}

function reportsFailure({ head, tail }: Ends): boolean {
  return FAILURE.test(head) || FAILURE.test(tail);
}

/** The usage that the ends show; undefined if there is none. */
function usageIn({ head, tail }: Ends): Usage | undefined {
  return readEmbeddingsUsage(lastUsage(tail) ?? firstUsage(head));
}

const USAGE_KEY = '"usage"';
/** The model's name, or the usage itself, may have this text too. */
const OCCURRENCES_MAX = 4;

/**
 * The value of `usage` at the end of a JSON object, without the text before it. Let R be the text from `"usage"` on. If
 * `{` and R are a JSON object, then `usage` is a member of the top-level object of the whole text:
 *
 * - `"usage"` is a whole string there. A quote inside a string has a backslash before it, and this one has none. A quote
 *   that ends a string is not followed by a letter.
 * - It is a key, because a colon follows: otherwise `{` and R were no object.
 * - The object of this key ends at the first brace in R that closes more than R opens. In `{` and R this brace ends the
 *   text. So nothing but white space follows it in the whole text either, and what it closes is the top-level object.
 */
function lastUsage(tail: string): unknown {
  let at = tail.lastIndexOf(USAGE_KEY);
  for (let tried = 0; at > 0 && tried < OCCURRENCES_MAX; tried += 1) {
    const object = tail[at - 1] === "\\" ? undefined : parsed(`{${tail.slice(at)}`);
    if (isJsonObject(object)) return object["usage"];
    at = tail.lastIndexOf(USAGE_KEY, at - 1);
  }
  return undefined;
}

/** The value of `usage` at the beginning of a JSON object, if it is a whole member of the top-level object. */
function firstUsage(head: string): unknown {
  const value = head.includes(USAGE_KEY) ? memberText(head, "usage") : undefined;
  return value === undefined ? undefined : parsed(value);
}

function parsed(text: string): unknown {
  try {
    return parseUntrusted(text, ANSWER_COST_FACTOR);
  } catch {
    return undefined;
  }
}
