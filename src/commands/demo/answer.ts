import { setTimeout as sleep } from "node:timers/promises";

/** A generated text, to be sent at once or word by word. */
export interface Answer {
  readonly text: string;
  /** The words of the text, each with the white space before it. */
  readonly words: readonly string[];
  readonly tokens: number;
  /** "length": `tokensMax` cut the text. */
  readonly finish: "stop" | "length";
}

export interface AnswerLimits {
  readonly tokensMax?: number | undefined;
  /** The text ends before the first of these sequences. */
  readonly stop?: readonly string[];
}

const GREETINGS = ["Hello", "Good day", "Greetings", "Welcome"];

/** The answer to a prompt. Equal arguments give equal answers. The choices of a request differ in the greeting. */
export function composeAnswer(userWords: number, choice: number, limits: AnswerLimits): Answer {
  const whole = answerText(userWords, choice);
  const tokens = splitTokens(whole);
  const bounded = tokens.slice(0, limits.tokensMax).join("");
  const stopsAt = firstIndexOf(bounded, limits.stop ?? []);
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

/** One server-sent event as text. */
export interface StreamedEvent {
  readonly frame: string;
  /** Words are sent with a delay, other events at once. */
  readonly isWord: boolean;
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
          // It rejects when the client disconnects.
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

/** A token is up to four characters of a word, with the white space before them. */
const TOKEN = /\s*\S{1,4}|\s+$/gu;

/** Joined, the tokens are the text. */
function splitTokens(text: string): string[] {
  return text.match(TOKEN) ?? [];
}

export function countTokens(text: string): number {
  return splitTokens(text).length;
}
