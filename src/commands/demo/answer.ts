import { countTokens, splitTokens } from "./tokens.ts";

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
