import { setTimeout as sleep } from "node:timers/promises";
import { fieldsOf, isJsonObject, type JsonFields } from "../../lib/json.ts";

export interface DemoProviderOptions {
  /** Default: 0, any free port. */
  readonly port?: number;
  /** Default: 127.0.0.1. */
  readonly hostname?: string;
  /** The time before each word of a stream. Default: 20 ms. */
  readonly wordDelayMs?: number;
}

/** A running demo provider. */
export interface DemoProvider {
  /** The `base_url` for a config: `http://127.0.0.1:PORT/v1`. */
  readonly url: string;
  /** Stops listening and cuts open streams. Resolves when the port is free. */
  stop(): Promise<void>;
}

const WORD_DELAY_DEFAULT_MS = 20;
const BODY_BYTES_MAX = 64 * 1024 * 1024;
/** Bun's maximum, for streams with long delays. */
const IDLE_TIMEOUT_S = 255;
const MODELS = ["demo-large", "demo-small"];
/** The first second of 2026. */
const MODELS_CREATED_S = 1_767_225_600;

/**
 * Starts a server with OpenAI's chat completions and models interfaces, in JSON and SSE. Equal requests get equal
 * answers, whatever the model is. Throws if the port is in use.
 */
export function startDemoProvider(options: DemoProviderOptions = {}): DemoProvider {
  const server = Bun.serve({
    hostname: options.hostname ?? "127.0.0.1",
    port: options.port ?? 0,
    // Otherwise Bun in production mode shares a port that is in use.
    reusePort: false,
    idleTimeout: IDLE_TIMEOUT_S,
    maxRequestBodySize: BODY_BYTES_MAX,
    // In development mode errors are answered with an HTML page.
    development: false,
    fetch: (request) => answer(request, options),
  });
  return {
    url: new URL("/v1", server.url).href,
    stop: () => server.stop(true),
  };
}

async function answer(request: Request, options: DemoProviderOptions): Promise<Response> {
  const target = `${request.method} ${new URL(request.url).pathname}`;
  try {
    switch (target) {
      case "POST /v1/chat/completions":
        return answerChat(await readFields(request), options.wordDelayMs ?? WORD_DELAY_DEFAULT_MS);
      case "GET /v1/models":
        return Response.json({ object: "list", data: MODELS.map(modelEntry) });
      default:
        throw new DemoError(404, `Invalid URL (${target})`);
    }
  } catch (error) {
    if (!(error instanceof DemoError)) throw error;
    const { message, param, status } = error;
    const fields = { message, type: "invalid_request_error", param, code: null };
    return Response.json({ error: fields }, { status });
  }
}

function modelEntry(id: string): object {
  return { id, object: "model", created: MODELS_CREATED_S, owned_by: "demo" };
}

/** An error that the demo provider answers with, in OpenAI's form. */
class DemoError extends Error {
  override readonly name = "DemoError";
  readonly status: number;
  /** The invalid field. */
  readonly param: string | null;

  constructor(status: number, message: string, param: string | null = null, cause?: unknown) {
    super(message, { cause });
    this.status = status;
    this.param = param;
  }
}

const CHOICES_MAX = 128;

/** JSON or a stream. Throws DemoError for an invalid request. */
function answerChat(fields: JsonFields, wordDelayMs: number): Response {
  const { model, messages, stop, stream_options: options } = fields;
  if (typeof model !== "string" || model === "")
    throw new DemoError(400, "you must provide a model parameter", "model");
  if (!Array.isArray(messages) || messages.length === 0)
    throw new DemoError(400, "Invalid 'messages': expected a non-empty array.", "messages");
  const prompt = measurePrompt(messages);
  const limits = {
    tokensMax: readCount(fields, "max_completion_tokens") ?? readCount(fields, "max_tokens"),
    stop: [stop].flat().filter((sequence) => typeof sequence === "string"),
  };
  const choices = readCount(fields, "n", CHOICES_MAX) ?? 1;
  const answers = Array.from({ length: choices }, (_, choice) =>
    composeAnswer(prompt.userWords, choice, limits),
  );
  const usage = usageOf(prompt, answers);
  if (fields["stream"] !== true) return Response.json(completion(model, answers, usage));
  const isUsageAsked = isJsonObject(options) && options["include_usage"] === true;
  return eventStream(chunks(model, answers, isUsageAsked ? usage : undefined), wordDelayMs);
}

/** The body of a request. Throws DemoError if it is not a JSON object. */
async function readFields(request: Request): Promise<JsonFields> {
  const text = await request.text();
  let fields: unknown;
  try {
    fields = JSON.parse(text);
  } catch (cause) {
    throw new DemoError(400, "We could not parse the JSON body of your request.", null, cause);
  }
  if (isJsonObject(fields)) return fields;
  throw new DemoError(400, "The body of the request must be a JSON object.");
}

/** A whole number from 1 to `max`, or undefined if it is absent or null. Throws DemoError for another value. */
function readCount(
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
interface Prompt {
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
function measurePrompt(messages: readonly unknown[]): Prompt {
  let tokens = 0;
  let userWords = 0;
  for (const message of messages) {
    const { role, content } = fieldsOf(message);
    const text = textOf(content);
    tokens += MESSAGE_TOKENS + countTokens(text);
    if (role === "user") userWords += countWords(text);
  }
  const isCached = tokens >= CACHE_MINIMUM_TOKENS;
  const steps = isCached ? Math.floor(tokens / 2 / CACHE_STEP_TOKENS) : 0;
  return { tokens, cachedTokens: steps * CACHE_STEP_TOKENS, userWords };
}

/** The content of a message, or the texts of its parts, one on each line. */
function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  const texts = content.map((part: unknown) => fieldsOf(part)["text"]);
  return texts.filter((text) => typeof text === "string").join("\n");
}

function usageOf(prompt: Prompt, answers: readonly Answer[]): object {
  const completionTokens = answers.reduce((sum, { tokens }) => sum + tokens, 0);
  return {
    prompt_tokens: prompt.tokens,
    completion_tokens: completionTokens,
    total_tokens: prompt.tokens + completionTokens,
    prompt_tokens_details: { cached_tokens: prompt.cachedTokens, audio_tokens: 0 },
    completion_tokens_details: {
      reasoning_tokens: 0,
      audio_tokens: 0,
      accepted_prediction_tokens: 0,
      rejected_prediction_tokens: 0,
    },
  };
}

function heading(object: string, model: string): object {
  return {
    id: `chatcmpl-${crypto.randomUUID().replaceAll("-", "")}`,
    object,
    created: Math.floor(Date.now() / 1000),
    model,
    service_tier: "default",
    system_fingerprint: "fp_demo",
  };
}

function completion(model: string, answers: readonly Answer[], usage: object): object {
  const choices = answers.map((answer, index) => ({
    index,
    message: { role: "assistant", content: answer.text, refusal: null, annotations: [] },
    logprobs: null,
    finish_reason: answer.finish,
  }));
  return { ...heading("chat.completion", model), choices, usage };
}

/** One server-sent event as text. */
export interface StreamedEvent {
  readonly frame: string;
  /** Words are sent with a delay, other events at once. */
  readonly isWord: boolean;
}

/** The events of a stream: the roles, the words of the choices in turn, the finish reasons, the usage if requested. */
function* chunks(
  model: string,
  answers: readonly Answer[],
  usage: object | undefined,
): Generator<StreamedEvent> {
  const head = heading("chat.completion.chunk", model);
  const event = (choices: readonly object[], isWord = false, reported: object | null = null) => {
    // If the usage is requested, each chunk has the field; it is null until the last.
    const chunk = { ...head, choices, ...(usage && { usage: reported }) };
    return { frame: `data: ${JSON.stringify(chunk)}\n\n`, isWord };
  };
  const choice = (index: number, delta: object, finish: string | null = null): object[] => [
    { index, delta, logprobs: null, finish_reason: finish },
  ];

  for (const index of answers.keys())
    yield event(choice(index, { role: "assistant", content: "", refusal: null }));
  const wordsMax = Math.max(...answers.map(({ words }) => words.length));
  for (let at = 0; at < wordsMax; at += 1)
    for (const [index, { words }] of answers.entries()) {
      const content = words[at];
      if (content !== undefined) yield event(choice(index, { content }), index === 0);
    }
  for (const [index, { finish }] of answers.entries()) yield event(choice(index, {}, finish));
  if (usage) yield event([], false, usage);
  yield { frame: "data: [DONE]\n\n", isWord: false };
}

/**
 * Streams the events. The next event is generated when the client has read the one before. When the client
 * disconnects, the generator is closed.
 */
export function eventStream(events: Iterable<StreamedEvent>, wordDelayMs: number): Response {
  const source = events[Symbol.iterator]();
  const cancelled = new AbortController();
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const next = source.next();
        if (next.done === true) {
          controller.close();
          return;
        }
        if (next.value.isWord && wordDelayMs > 0) {
          // `sleep` rejects when the client disconnects.
          await sleep(wordDelayMs, undefined, { signal: cancelled.signal }).catch(() => undefined);
        }
        if (!cancelled.signal.aborted) controller.enqueue(encoder.encode(next.value.frame));
      },
      cancel() {
        cancelled.abort();
        source.return?.();
      },
    },
    { highWaterMark: 0 },
  );
  const headers = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-store",
  };
  return new Response(body, { headers });
}

/** A generated text, to be sent at once or word by word. */
interface Answer {
  readonly text: string;
  /** The words of the text, each with the white space before it. */
  readonly words: readonly string[];
  readonly tokens: number;
  /** "length": `tokensMax` cut the text. */
  readonly finish: "stop" | "length";
}

interface AnswerLimits {
  readonly tokensMax: number | undefined;
  /** The text ends before the first of these sequences. */
  readonly stop: readonly string[];
}

const GREETINGS = ["Hello", "Good day", "Greetings", "Welcome"];

/** The answer to a prompt. Equal arguments give equal answers. The choices of a request differ in the greeting. */
function composeAnswer(userWords: number, choice: number, limits: AnswerLimits): Answer {
  const whole = answerText(userWords, choice);
  const bounded = tokensOf(whole).slice(0, limits.tokensMax).join("");
  const stopsAt = firstIndexOf(bounded, limits.stop);
  const text = bounded.slice(0, stopsAt);
  return {
    text,
    words: text.match(/\s*\S+|\s+$/gu) ?? [],
    tokens: countTokens(text),
    finish: stopsAt === undefined && bounded.length < whole.length ? "length" : "stop",
  };
}

function answerText(userWords: number, choice: number): string {
  const greeting = GREETINGS[choice % GREETINGS.length] ?? "Hello";
  const sent = userWords === 1 ? "1 word" : `${userWords} words`;
  return (
    `${greeting} from the demo provider! You sent me ${sent}, and I have counted every one. ` +
    "I am no language model, only a small server on your own machine that talks like one: " +
    "over real HTTP, word by word if you like, with tokens that cost something. " +
    "When you are ready for real answers, put a real provider into your config."
  );
}

function firstIndexOf(text: string, sequences: readonly string[]): number | undefined {
  const indexes = sequences
    .filter((sequence) => sequence !== "")
    .map((sequence) => text.indexOf(sequence));
  const found = indexes.filter((index) => index >= 0);
  return found.length === 0 ? undefined : Math.min(...found);
}

/** Joined, the tokens are the text. One is up to four characters of a word, with the white space before them. */
function tokensOf(text: string): string[] {
  return text.match(/\s*\S{1,4}|\s+$/gu) ?? [];
}

function countTokens(text: string): number {
  return tokensOf(text).length;
}

function countWords(text: string): number {
  return text.match(/\S+/gu)?.length ?? 0;
}
