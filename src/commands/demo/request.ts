import { isJsonObject, type JsonFields, fieldsOf } from "../../lib/json.ts";
import { countTokens } from "./answer.ts";

/** Reads a request's body. Throws a Refusal when it is not a JSON object. */
export async function readFields(request: Request): Promise<JsonFields> {
  const text = await request.text();
  const fields = parse(text);
  if (!isJsonObject(fields))
    throw new DemoError(400, "The body of the request must be a JSON object.");
  return fields;
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new DemoError(400, "We could not parse the JSON body of your request.", {}, { cause });
  }
}

/** The model asked for; any name will do. Throws a Refusal when there is none. */
export function readModel(fields: JsonFields): string {
  const model = fields["model"];
  if (model === undefined || model === null || model === "") {
    throw new DemoError(400, "you must provide a model parameter");
  }
  if (typeof model !== "string") throw wrongType("model", "a string");
  return model;
}

/** A whole number of at least 1, or undefined when absent or null. Throws a Refusal for anything else. */
export function readCount(
  fields: JsonFields,
  param: string,
  max = Number.MAX_SAFE_INTEGER,
): number | undefined {
  const value = fields[param];
  if (value === undefined || value === null) return undefined;
  if (!Number.isSafeInteger(value)) throw wrongType(param, "an integer");
  const count = Number(value);
  if (count < 1 || count > max) {
    const range = count < 1 ? "at least 1" : `at most ${max}`;
    throw new DemoError(400, `Invalid '${param}': it must be ${range}.`, {
      param,
      code: "integer_out_of_range",
    });
  }
  return count;
}

/** The refusal of a field that is missing. */
export function missing(param: string): DemoError {
  return new DemoError(400, `Missing required parameter: '${param}'.`, {
    param,
    code: "missing_required_parameter",
  });
}

/** The refusal of a field that holds the wrong kind of value. */
export function wrongType(param: string, wanted: string): DemoError {
  return new DemoError(400, `Invalid type for '${param}': expected ${wanted}.`, {
    param,
    code: "invalid_type",
  });
}

/** What the demo provider understands of a prompt: how long it is. */
export interface Prompt {
  readonly tokens: number;
  /** Those of `tokens` that are reported as read from a cache. */
  readonly cachedTokens: number;
  /** The words of all messages of the user. */
  readonly userWords: number;
}

const MESSAGE_TOKENS = 3;
const CACHE_MINIMUM_TOKENS = 1024;
const CACHE_STEP_TOKENS = 128;

/**
 * Measures messages: the tokens of their texts and three more for each message. Parts that are not text count
 * nothing. There is no cache, but there are prices for one: half of a prompt of 1,024 tokens or more is reported as
 * cached, in steps of 128, so that the same request always costs the same.
 */
export function measurePrompt(messages: readonly unknown[]): Prompt {
  let tokens = 0;
  let userWords = 0;
  for (const message of messages) {
    if (!isJsonObject(message)) continue;
    const text = textOf(message["content"]);
    tokens += MESSAGE_TOKENS + countTokens(text);
    if (message["role"] === "user") userWords += countWords(text);
  }
  const cachedTokens =
    tokens < CACHE_MINIMUM_TOKENS
      ? 0
      : Math.floor(tokens / 2 / CACHE_STEP_TOKENS) * CACHE_STEP_TOKENS;
  return { tokens, cachedTokens, userWords };
}

/** The text of a message: its content, or that of its content's parts, one a line. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const texts = content.map((part: unknown) => fieldsOf(part)["text"]);
  return texts.filter((text) => typeof text === "string").join("\n");
}

function countWords(text: string): number {
  return text.match(/\S+/gu)?.length ?? 0;
}

/** Why the demo provider refuses a request, in the form in which OpenAI's interface says it. */
export class DemoError extends Error {
  override readonly name = "Refusal";
  readonly status: number;
  readonly details: RefusalDetails;

  constructor(
    status: number,
    message: string,
    details: RefusalDetails = {},
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.status = status;
    this.details = details;
  }

  /** The answer that carries it. A refusal of a key has the same type there as one of a field. */
  toResponse(): Response {
    const { param = null, code = null } = this.details;
    const error = { message: this.message, type: "invalid_request_error", param, code };
    return Response.json({ error }, { status: this.status });
  }
}

interface RefusalDetails {
  /** The field at fault. */
  readonly param?: string;
  readonly code?: string;
}
