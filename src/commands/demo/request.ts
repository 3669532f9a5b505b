import { isJsonObject, type JsonFields, fieldsOf } from "../../lib/json.ts";
import { countTokens } from "./answer.ts";

/** The body of a request. Throws DemoError if it is not a JSON object. */
export async function readFields(request: Request): Promise<JsonFields> {
  const fields = parse(await request.text());
  if (!isJsonObject(fields))
    throw new DemoError(400, "The body of the request must be a JSON object.");
  return fields;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new DemoError(400, "We could not parse the JSON body of your request.", null, { cause });
  }
}

/** The model, which can have any name. Throws DemoError if it is missing. */
export function readModel({ model }: JsonFields): string {
  if (typeof model === "string" && model !== "") return model;
  throw new DemoError(400, "you must provide a model parameter", "model");
}

/** A whole number from 1 to `max`, or undefined if it is absent or null. Throws DemoError for another value. */
export function readCount(
  fields: JsonFields,
  param: string,
  max = Number.MAX_SAFE_INTEGER,
): number | undefined {
  const value = fields[param] ?? undefined;
  if (value === undefined) return undefined;
  if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= max)
    return value;
  throw new DemoError(400, `Invalid '${param}': expected an integer from 1 to ${max}.`, param);
}

/** The size of a prompt. */
export interface Prompt {
  readonly tokens: number;
  /** The part of `tokens` that is reported as read from a cache. */
  readonly cachedTokens: number;
  /** The words of all user messages. */
  readonly userWords: number;
}

const MESSAGE_TOKENS = 3;
const CACHE_MINIMUM_TOKENS = 1024;
const CACHE_STEP_TOKENS = 128;

/**
 * Measures messages: the tokens of their texts, and three for each message. Parts that are not text count nothing.
 * There is no cache. To show cache prices, half of a prompt of 1,024 tokens or more is reported as cached, in steps of
 * 128, so that equal requests cost the same.
 */
export function measurePrompt(messages: readonly unknown[]): Prompt {
  let tokens = 0;
  let userWords = 0;
  for (const message of messages) {
    const { role, content } = fieldsOf(message);
    const text = textOf(content);
    tokens += MESSAGE_TOKENS + countTokens(text);
    if (role === "user") userWords += countWords(text);
  }
  const cachedTokens =
    tokens < CACHE_MINIMUM_TOKENS
      ? 0
      : Math.floor(tokens / 2 / CACHE_STEP_TOKENS) * CACHE_STEP_TOKENS;
  return { tokens, cachedTokens, userWords };
}

/** The content of a message, or the texts of its parts, one on each line. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const texts = content.map((part: unknown) => fieldsOf(part)["text"]);
  return texts.filter((text) => typeof text === "string").join("\n");
}

function countWords(text: string): number {
  return text.match(/\S+/gu)?.length ?? 0;
}

/** An error that the demo provider answers with, in OpenAI's form. */
export class DemoError extends Error {
  override readonly name = "DemoError";
  readonly status: number;
  /** The invalid field. */
  readonly param: string | null;

  constructor(
    status: number,
    message: string,
    param: string | null = null,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.status = status;
    this.param = param;
  }

  toResponse(): Response {
    const { message, param } = this;
    const error = { message, type: "invalid_request_error", param, code: null };
    return Response.json({ error }, { status: this.status });
  }
}
