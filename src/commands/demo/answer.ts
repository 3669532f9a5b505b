import { setTimeout as pause } from "node:timers/promises";

/** What the demo provider says, ready to be sent whole or word by word. */
export interface Answer {
  readonly text: string;
  /** The text in pieces of one word, each with the space before it. */
  readonly words: readonly string[];
  readonly tokens: number;
  /** "length" when the bound cut it short. */
  readonly finish: "stop" | "length";
}

export interface AnswerLimits {
  readonly tokensMax?: number | undefined;
  /** The text ends before the first of these that it would hold. */
  readonly stop?: readonly string[];
}

const GREETINGS = ["Hello", "Good day", "Greetings", "Welcome"];

/** The answer to a prompt. The same arguments always give the same answer; choices of one request differ in their greeting. */
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
  const places = sequences
    .filter((sequence) => sequence !== "")
    .map((sequence) => text.indexOf(sequence));
  const found = places.filter((place) => place >= 0);
  return found.length === 0 ? undefined : Math.min(...found);
}

/** One server-sent event, framed and ready to be written. */
export interface StreamedEvent {
  readonly frame: string;
  /** A word takes its time; everything else follows at once. */
  readonly isWord: boolean;
}

/**
 * Answers with events as they are asked for. The next event is made only when the client has taken the one before, so
 * a client that does not read costs nothing; when the client goes away, the source is closed and nothing more is made.
 */
export function eventStream(events: Iterable<StreamedEvent>, wordDelayMs: number): Response {
  const source = events[Symbol.iterator]();
  const leaving = new AbortController();
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
          // Cut short, it rejects; nobody is there then to be told.
          await pause(wordDelayMs, undefined, { signal: leaving.signal }).catch(() => undefined);
        }
        if (!leaving.signal.aborted) controller.enqueue(encoder.encode(next.value.frame));
      },
      cancel() {
        leaving.abort();
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

// How the demo provider counts: a token is up to four characters of a word, with the white space before them.
const TOKEN = /\s*\S{1,4}|\s+$/gu;

/** Cuts a text into tokens. Put together again they are the text. */
function splitTokens(text: string): string[] {
  return text.match(TOKEN) ?? [];
}

/** How many tokens a text has: for each word a quarter of its characters, rounded up. */
export function countTokens(text: string): number {
  return splitTokens(text).length;
}
